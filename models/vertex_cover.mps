* Every corridor (row) has a guard at one of its two ends; posts 0..15.
NAME vertex_cover
ROWS
 N cost
 G corridor[0,1]
 G corridor[1,2]
 G corridor[2,3]
 G corridor[3,4]
 G corridor[4,0]
 G corridor[0,5]
 G corridor[5,6]
 G corridor[6,7]
 G corridor[7,1]
 G corridor[2,8]
 G corridor[8,9]
 G corridor[9,3]
 G corridor[5,10]
 G corridor[10,11]
 G corridor[11,6]
 G corridor[8,11]
 G corridor[4,12]
 G corridor[12,13]
 G corridor[13,9]
 G corridor[12,14]
 G corridor[14,15]
 G corridor[15,13]
 G corridor[10,14]
COLUMNS
 MARKER 'MARKER' 'INTORG'
 guard[0] corridor[0,1] 1
 guard[0] corridor[4,0] 1
 guard[0] corridor[0,5] 1
 guard[1] corridor[0,1] 1
 guard[1] corridor[1,2] 1
 guard[1] corridor[7,1] 1
 guard[2] corridor[1,2] 1
 guard[2] corridor[2,3] 1
 guard[2] corridor[2,8] 1
 guard[3] corridor[2,3] 1
 guard[3] corridor[3,4] 1
 guard[3] corridor[9,3] 1
 guard[4] corridor[3,4] 1
 guard[4] corridor[4,0] 1
 guard[4] corridor[4,12] 1
 guard[5] corridor[0,5] 1
 guard[5] corridor[5,6] 1
 guard[5] corridor[5,10] 1
 guard[6] corridor[5,6] 1
 guard[6] corridor[6,7] 1
 guard[6] corridor[11,6] 1
 guard[7] corridor[6,7] 1
 guard[7] corridor[7,1] 1
 guard[8] corridor[2,8] 1
 guard[8] corridor[8,9] 1
 guard[8] corridor[8,11] 1
 guard[9] corridor[8,9] 1
 guard[9] corridor[9,3] 1
 guard[9] corridor[13,9] 1
 guard[10] corridor[5,10] 1
 guard[10] corridor[10,11] 1
 guard[10] corridor[10,14] 1
 guard[11] corridor[10,11] 1
 guard[11] corridor[11,6] 1
 guard[11] corridor[8,11] 1
 guard[12] corridor[4,12] 1
 guard[12] corridor[12,13] 1
 guard[12] corridor[12,14] 1
 guard[13] corridor[12,13] 1
 guard[13] corridor[13,9] 1
 guard[13] corridor[15,13] 1
 guard[14] corridor[12,14] 1
 guard[14] corridor[14,15] 1
 guard[14] corridor[10,14] 1
 guard[15] corridor[14,15] 1
 guard[15] corridor[15,13] 1
 MARKER 'MARKER' 'INTEND'
RHS
 RHS corridor[0,1] 1
 RHS corridor[1,2] 1
 RHS corridor[2,3] 1
 RHS corridor[3,4] 1
 RHS corridor[4,0] 1
 RHS corridor[0,5] 1
 RHS corridor[5,6] 1
 RHS corridor[6,7] 1
 RHS corridor[7,1] 1
 RHS corridor[2,8] 1
 RHS corridor[8,9] 1
 RHS corridor[9,3] 1
 RHS corridor[5,10] 1
 RHS corridor[10,11] 1
 RHS corridor[11,6] 1
 RHS corridor[8,11] 1
 RHS corridor[4,12] 1
 RHS corridor[12,13] 1
 RHS corridor[13,9] 1
 RHS corridor[12,14] 1
 RHS corridor[14,15] 1
 RHS corridor[15,13] 1
 RHS corridor[10,14] 1
BOUNDS
 UP BND guard[0] 1
 UP BND guard[1] 1
 UP BND guard[2] 1
 UP BND guard[3] 1
 UP BND guard[4] 1
 UP BND guard[5] 1
 UP BND guard[6] 1
 UP BND guard[7] 1
 UP BND guard[8] 1
 UP BND guard[9] 1
 UP BND guard[10] 1
 UP BND guard[11] 1
 UP BND guard[12] 1
 UP BND guard[13] 1
 UP BND guard[14] 1
 UP BND guard[15] 1
ENDATA
