#!/usr/bin/env python3
"""Shows that a goal can be missed: planted numbers, nothing is measured."""

import unittest

import goals


class Goals(unittest.TestCase):
    def only(self, **measured: list[float]) -> goals.Outcome:
        named = {name.replace("_", " "): values for name, values in measured.items()}
        [outcome] = goals.judge(named)
        return outcome

    def test_more_is_better_for_rates(self) -> None:
        self.assertTrue(self.only(longhaul_drain=[20.0], dbos_drain=[1.0]).met)
        self.assertFalse(self.only(longhaul_drain=[19.9], dbos_drain=[1.0]).met)

    def test_less_is_better_for_times_and_the_slack_is_taken_off(self) -> None:
        # Held against two fdatasyncs of 0.5 ms: thrice that and 1 ms.
        self.assertTrue(self.only(longhaul_pickup=[4.0], raw_fdatasync=[0.5]).met)
        self.assertFalse(self.only(longhaul_pickup=[4.1], raw_fdatasync=[0.5]).met)

    def test_a_slow_pass_is_judged_against_its_own_yardstick(self) -> None:
        outcome = self.only(longhaul_drain=[300.0, 30.0, 3.0], dbos_drain=[10.0, 1.0, 0.1])
        self.assertEqual(outcome.ratios, [30.0, 30.0, 30.0])
        self.assertTrue(outcome.met)

    def test_what_has_no_goal_is_neither_met_nor_missed(self) -> None:
        outcome = self.only(longhaul_bulk=[1.0], raw_insert_100=[100.0])
        self.assertIsNone(outcome.met)

    def test_what_was_not_measured_is_left_out(self) -> None:
        self.assertEqual(goals.judge({"longhaul drain": [1.0]}), [])

    def test_every_goal_gives_its_reason(self) -> None:
        for comparison in goals.COMPARISONS:
            self.assertEqual(comparison.goal is None, comparison.reason == "", comparison.scenario)


if __name__ == "__main__":
    unittest.main()
