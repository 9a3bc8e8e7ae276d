"""Every run sees the same examples, a slow machine is no failure, long tables are thinned for every day."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

LONG_TABLES = {
    "conformance/test_exact_distributions.py": (
        "test_exact_distribution",
        "test_simulation_follows_the_distribution",
    ),
    "conformance/test_families.py": (
        "test_no_pair_of_datasets_exceeds_the_curve_and_one_attains_it",
        "test_draws_have_the_distribution_of_the_posterior",
        "test_renyi_divergence_is_the_integral",
        "test_hockey_stick_is_the_integral",
        "test_exact_profile_is_below_the_renyi_conversion",
        "test_profiles_in_floats_stay_within_their_margin",
    ),
    "test_add_remove.py": ("test_against_all_true_counts",),
    "test_auditing.py": ("test_audit_equals_brute_force",),
    "test_brute_force.py": ("test_means_of_all_pairs_of_neighbours",),
    "test_commands.py": ("test_every_kind_from_file_to_report",),
    "test_compatibility.py": ("test_a_document_is_shown", "test_a_document_reads_back_and_is_reported"),
    "test_data_statistics.py": (
        "test_one_record_moves_a_statistic_by_at_most_its_bound",
        "test_no_rows",
        "test_uncovered_records_are_counted_not_shown",
        "test_a_record_of_nobody_is_an_error",
        "test_the_smallest_codes_enter",
    ),
    "test_decoding.py": (
        "test_two_levels_reach_the_limit",
        "test_three_levels_come_within_a_tenth_of_the_limit",
    ),
    "test_documents.py": ("test_large_counts_are_read_and_reported",),
    "test_exponential.py": ("test_exact_calibration_uses_the_whole_budget",),
    "test_glm_estimator.py": ("test_scikit_learn_accepts_it",),
    "test_likelihoods.py": ("test_extremes_against_240_bits",),
    "test_newton_sums.py": ("test_engines_give_the_same_integers",),
    "test_optimal.py": ("test_no_mechanism_is_below_the_limit",),
    "test_hellinger_plan.py": (
        "test_lattice_is_best_and_nothing_is_below_the_limit",
        "test_the_smallest_epsilon",
    ),
    "test_published.py": (
        "test_a_regression_is_a_function_of_its_noisy_sums",
        "test_a_mean_is_a_function_of_its_noisy_sums",
    ),
    "test_sampling.py": ("test_target_is_met_and_not_overshot",),
    "test_studio.py": ("test_every_kind_of_question_from_the_form_to_the_report",),
    "test_withheld.py": ("test_no_error_quotes_a_record",),
}
"""Of these every third row is tried every day, and the others with the slow tests."""


@pytest.fixture(autouse=True)
def _uncounted_calls_are_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls without a ledger say nothing here: what they say has a test of its own."""
    monkeypatch.setattr("discreet.questions._asking._warned_uncounted", True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for item in items:
        table = item.path.as_posix().rpartition("/tests/")[2], item.name.partition("[")[0]
        if table[1] in LONG_TABLES.get(table[0], ()) and item.get_closest_marker("slow") is None:
            if seen[table] % 3:
                item.add_marker(pytest.mark.slow)
            seen[table] += 1
