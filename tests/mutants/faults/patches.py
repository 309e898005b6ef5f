"""Faults in single lines of source, outside of kernels. The runner says "renew this patch" if a line has changed."""

from .base import Patch, add


def patch(name: str, area: str, file: str, old: str, new: str, laws: str = "", tests: str = "") -> None:
    """Register a mutant of one line."""
    add(name, area, Patch(file, old, new), laws, tests)


# fmt: off
patch("lawler_forgets_forbidden_decisions", "algorithms", "algorithms/lawler.py",
      "kept = forbidden if q == position else key[q]", "kept = key[q]")
patch("front_of_a_product_is_cut_off", "algorithms", "algorithms/product.py",
      "kept = nondominated(sums[:, 0], sums[:, 1])", "kept = nondominated(sums[:, 0], sums[:, 1])[:2]",
      laws="tests/laws/test_laws.py -k path")
patch("embedding_forgets_its_fixed_part", "algorithms", "algorithms/embedding.py",
      "own = self._algorithm.front_plan(self.free(G), g_const + self.constant(G))",
      "own = self._algorithm.front_plan(self.free(G), g_const)")
patch("costs_of_columns_that_follow_are_lost", "algorithms", "algorithms/embedding.py",
      "free[i, column[q]] += value[q] * C[i, names[j]]", "free[i, column[q]] += 0.0 * C[i, names[j]]")
patch("columns_that_follow_stay_constant", "algorithms", "algorithms/embedding.py",
      "Z[i, names[j]] += value[q] * free[i, column[q]]", "Z[i, names[j]] += 0.0 * free[i, column[q]]")
patch("bounds_of_columns_that_follow_are_not_implied", "algorithms", "recognize/dependent.py",
      "entry = entry[_bounds_are_implied(form, entry)] if entry.size else entry", "entry = entry[:]")
patch("first_step_of_a_chain_is_not_looked_at", "algorithms", "algorithms/chain/algorithm.py",
      "if T > 2 and (forbidden[1:] == forbidden[1:2]).all() and (forbidden[:1, first] == forbidden[1:2, first]).all():",
      "if T > 2 and (forbidden[1:] == forbidden[1:2]).all():")
patch("outside_lists_too_few_labels", "algorithms", "algorithms/base.py",
      "if len(found.Z) < k or k > len(no_goods):", "if len(found.Z) < k or k >= len(no_goods):")
patch("no_good_row_has_a_wrong_side", "algorithms", "backends/no_goods.py",
      "offset = np.where(at_lower, low, -up).sum(axis=1)", "offset = np.where(at_lower, low, up).sum(axis=1)")
patch("covariance_is_doubled", "algorithms", "algorithms/base.py",
      "(8.0 * near - far) / (12.0 * 2e-3)", "(8.0 * near - far) / (6.0 * 2e-3)", tests="tests/oracle/test_sums.py")
patch("search_of_corners_skips_a_side", "search", "search/exact.py",
      "_push(queue, run, _shrink(run, psi, corner, envelope, h_side=point, g_side=None))", "pass")
patch("search_forgets_lost_labels", "search", "search/result.py",
      "return max(self.value, self.upper, self.lost)", "return max(self.value, self.upper)")
patch("angle_is_split_in_one", "search", "search/angular.py",
      "for top, bottom, is_lower in ((high, middle, False), (middle, low, True)):",
      "for top, bottom, is_lower in ((high, middle, False),):")
patch("rounding_moves_a_ray_inwards", "search", "search/angular.py",
      "discriminant = bound * bound - 4.0 * lam * best", "discriminant = bound * bound - 6.0 * lam * best")
patch("weights_of_siblings_are_alike", "losses", "losses/hierarchical.py",
      "value[child] = value[parent] / siblings[parent]", "value[child] = value[parent]")
patch("tangent_is_taken_at_h", "risks", "risks/structured.py",
      "return Violations(labels, scale, value - scale * margin, value, upper)",
      "return Violations(labels, scale, value - scale * h, value, upper)")
patch("intercept_of_a_cut_is_a_sum", "risks", "risks/structured.py",
      "return Cut(upper, subgradient, value, float(found.level.sum()) / n)",
      "return Cut(upper, subgradient, value, float(found.level.sum()))")
patch("bmrm_cuts_at_the_centre", "trainers", "train/bmrm.py",
      "self.bundle.add(cut.subgradient, cut.offset(query.w))",
      "self.bundle.add(cut.subgradient, cut.offset(self.center.w))")
patch("checkpoint_forgets_the_height", "trainers", "train/bmrm.py",
      'state |= {"height": self.height, "run": self.improving}', 'state |= {"height": math.inf, "run": 0}')
patch("block_ascent_bounds_before_it_rebuilds", "trainers", "train/block_ascent.py",
      "monitor.bound(low)", "monitor.bound(1.01 * low)")
patch("classes_of_points_are_the_worst", "codecs", "structures/multiclass.py",
      "return np.asarray(np.asarray(Z).argmax(axis=1), dtype=np.int64)",
      "return np.asarray(np.asarray(Z).argmin(axis=1), dtype=np.int64)")
patch("label_form_forgets_blocks", "codecs", "model/forms.py",
      'return "blocks" if "blocks" in forms else "vector" if "vector" in forms else "first"',
      'return "vector" if "vector" in forms else "first"',
      laws="tests/laws/test_files.py", tests="tests/estimators/test_label_forms.py")
patch("negative_range_of_an_equality_is_ignored", "files", "interop/mps.py",
      'elif kind == "L" or width < 0:', 'elif kind == "L":')
patch("minus_infinity_is_ignored", "files", "interop/mps.py",
      '"MI": (-np.inf, None),', '"MI": (None, None),')
patch("lp_writer_drops_a_lower_bound", "files", "interop/lp.py",
      'yield f" {low_texts[j]} <= {variables[j]} <= {high_texts[j]}"', 'yield f" {variables[j]} <= {high_texts[j]}"')
patch("lp_writer_drops_a_sign", "files", "interop/lp.py",
      'signs = np.where(values < 0, "-", "+").tolist()', 'signs = np.where(values < -1, "-", "+").tolist()')
patch("children_may_weigh_less", "norms", "norms/normalization.py",
      "alpha[hierarchy.leaf_index] = 1.0 - smallest * (size - 1.0)", "alpha[hierarchy.leaf_index] = smallest")
