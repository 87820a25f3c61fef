#!/usr/bin/env python3
"""Tries the history checker: a clean history has no violation, and each planted violation is reported.

Usage: e2e/torture/checker_test.py [--quiet]
"""

import sys
import unittest
from typing import Any, Callable

import checker
import invariants_effects
import invariants_faults
import invariants_jobs
import proxy
import sample
from history import History, Observation
from plan import REDIRECTED, draw

Plant = Callable[[list[Observation]], Any]


def one(history: list[Observation], sort: str, **fields: Any) -> Observation:
    """Returns the first observation with these fields."""
    for observation in history:
        if observation["sort"] == sort and all(observation.get(name) == value for name, value in fields.items()):
            return observation
    raise AssertionError(f"the sample has no {sort} with {fields}")


def final(history: list[Observation], job: str) -> Observation:
    return one(history, "final", job=job)


def copy_of(history: list[Observation], sort: str, where: dict[str, Any], **fields: Any) -> None:
    """Adds a copy of an observation with other fields."""
    history.append(one(history, sort, **where) | fields)


def change(history: list[Observation], sort: str, where: dict[str, Any], **fields: Any) -> None:
    one(history, sort, **where).update(fields)


def remove(history: list[Observation], sort: str, **where: Any) -> None:
    history.remove(one(history, sort, **where))


def entry(history: list[Observation], job: str, version: int) -> dict[str, Any]:
    return final(history, job)["history"][version - 1]


# Number of the invariant, name of the violation, and how to plant it.
PLANTED: list[tuple[str, str, Plant]] = [
    ("1", "unknown while it should be readable",
     lambda h: copy_of(h, "read", {"job": "taken"}, status=404, sent=150.0, done=150.1)),
    ("1", "gone without a purge", lambda h: change(h, "final", {"job": "taken"}, status=410)),
    ("1", "readable after its purge",
     lambda h: copy_of(h, "read", {"job": "purged", "status": 200}, sent=109.0, done=109.1)),
    ("1", "never read again", lambda h: remove(h, "final", job="parent")),
    ("1", "a fork was lost", lambda h: remove(h, "final", job="fork")),
    ("1", "another input", lambda h: final(h, "taken").update(input={"variant": 1})),
    ("1", "a damaged payload", lambda h: final(h, "taken")["result"].update(payload="other")),
    ("2", "two jobs for one key", lambda h: copy_of(h, "submit", {"job": "taken"}, job="parent")),
    ("2", "two jobs for one key in the list",
     lambda h: one(h, "listed", tenant="acme")["jobs"].append(
         {"jobId": "twin", "idempotencyKey": "key-taken", "status": "completed", "forkedFrom": None})),
    ("2", "two inputs accepted", lambda h: copy_of(h, "submit", {"job": "taken"}, variant=1, status=200)),
    ("2", "the accepted input rejected", lambda h: copy_of(
        h, "submit", {"job": "taken"}, status=422, code="idempotency-key-reused", job=None)),
    ("2", "a job that was never submitted",
     lambda h: one(h, "listed", tenant="acme")["jobs"].append(
         {"jobId": "ghost", "idempotencyKey": "key-ghost", "status": "completed", "forkedFrom": None})),
    ("2", "a fork that was never requested",
     lambda h: one(h, "listed", tenant="initech")["jobs"].append(
         {"jobId": "twin", "idempotencyKey": None, "status": "completed", "forkedFrom": "parent"})),
    ("3", "two leases at once", lambda h: final(h, "taken")["attempts"][1].update(startedAt=105.0)),
    ("3", "a program without a lease", lambda h: change(h, "run", {"job": "parent", "what": "begin"}, replica="r1")),
    ("3", "a write of a former lease",
     lambda h: final(h, "taken")["steps"][1]["output"].update(run="run-taken-b-1", attempt=1)),
    ("3", "a checkpoint of no run", lambda h: final(h, "parent")["steps"][0]["output"].update(run="none")),
    ("3", "the result of another run", lambda h: final(h, "parent").update(result={"run": "none"})),
    ("3", "the result of a former lease", lambda h: (
        final(h, "taken").update(steps=[]), final(h, "taken")["result"].update(run="run-taken-b-1"))),
    ("4", "a changed checkpoint", lambda h: one(h, "steps", job="parent")["steps"][0].update(output={"other": 1})),
    ("4", "a lost checkpoint", lambda h: final(h, "parent")["steps"].pop()),
    ("4", "a repeated step", lambda h: copy_of(
        h, "run", {"job": "taken", "step": "b", "attempt": 2, "what": "begin"}, step="a", run="again", at=107.8,
        folder="taken-2")),
    ("4", "a step that ran twice in one claim", lambda h: copy_of(
        h, "run", {"job": "parent", "step": "a", "what": "begin"}, run="again", at=102.1)),
    ("5", "an illegal transition", lambda h: entry(h, "taken", 2).update(state="completed")),
    ("5", "a job that begins in the middle", lambda h: final(h, "taken")["history"].pop(0)),
    ("5", "an end that was left without a resume", lambda h: remove(h, "control", command="resume")),
    ("5", "a resume without effect", lambda h: copy_of(h, "control", {"command": "resume"}, sent=120.0)),
    ("5", "a cancellation that was never requested", lambda h: remove(h, "control", command="cancel")),
    ("5", "an attempt without a claim", lambda h: entry(h, "taken", 4).update(attempt=2)),
    ("6", "a missed transition", lambda h: remove(h, "event", job="taken", version=4)),
    ("6", "a missed first transition", lambda h: remove(h, "event", job="taken", version=1)),
    ("6", "a repeated event", lambda h: h.append(dict(one(h, "event", job="taken", version=4)))),
    ("6", "a second end", lambda h: copy_of(h, "event", {"job": "parent", "state": "completed"}, version=9)),
    ("6", "another state than in the history", lambda h: change(h, "event", {"job": "taken", "version": 5}, attempt=2)),
    ("6", "no end", lambda h: remove(h, "event", job="parent", state="completed")),
    ("6", "a status without its event", lambda h: final(h, "taken")["body"].update(attempt=3)),
    ("7", "a result while it runs", lambda h: change(h, "read", {"job": "taken", "version": 2}, hasResult=True)),
    ("7", "completed without a result", lambda h: change(h, "event", {"job": "taken", "state": "completed"}, hasResult=False)),
    ("7", "a result that cannot be read", lambda h: final(h, "parent").update(resultStatus=404)),
    ("7", "two results", lambda h: final(h, "parent").update(bodyResult={"run": "other"})),
    ("8", "too many attempts", lambda h: final(h, "parent")["body"].update(attempt=5)),
    ("8", "a program in too late an attempt", lambda h: copy_of(h, "run", {"job": "parent"}, attempt=5, run="late")),
    ("8", "a crash that was not charged", lambda h: final(h, "taken")["attempts"][1].update(attempt=1)),
    ("8", "a maximum that grew", lambda h: final(h, "parent")["body"].update(maxAttempts=8)),
    ("9", "an event that was never delivered", lambda h: (
        remove(h, "delivery", job="taken", version=2), remove(h, "endpoint-delivery", id="msg-taken-2"))),
    ("9", "delivered without a reply", lambda h: change(h, "delivery", {"job": "taken", "version": 2}, reply=503)),
    ("9", "overdue", lambda h: (
        remove(h, "delivery", job="taken", version=2),
        change(h, "endpoint-delivery", {"id": "msg-taken-2"}, state="pending", runAt=100.0))),
    ("9", "an event that did not happen", lambda h: change(h, "delivery", {"job": "taken", "version": 2}, type="job.failed")),
    ("9", "two ids for one event", lambda h: copy_of(h, "delivery", {"job": "taken", "version": 2}, id="msg-other")),
    ("9", "one id for two events", lambda h: change(h, "delivery", {"job": "taken", "version": 3}, id="msg-taken-2")),
    ("9", "out of order", lambda h: change(h, "delivery", {"job": "taken", "version": 2}, at=190.0)),
    ("9", "a forged signature", lambda h: change(h, "delivery", {"job": "taken", "version": 2}, signed=False)),
    ("10", "a job metered twice", lambda h: one(h, "usage", tenant="acme")["total"].update(jobs=2)),
    ("10", "a step metered twice", lambda h: one(h, "usage", tenant="initech")["total"].update(steps=10)),
    ("10", "a payload that was not metered", lambda h: one(h, "usage", tenant="acme")["total"].update(payloadBytes=0)),
    ("11", "another tenant's data", lambda h: change(h, "foreign", {"tenant": "globex"}, of="acme", status=200)),
    ("11", "another tenant's job", lambda h: change(h, "foreign", {"tenant": "globex"}, status=409)),
    ("11", "another tenant's delivery", lambda h: change(h, "delivery", {"job": "taken"}, foreign=["globex"])),
    ("12", "a key that outlived its job", lambda h: final(h, "taken")["receipt"][0].update(keyDestroyedAt=115.0)),
    ("12", "a payload that stays", lambda h: (
        final(h, "taken")["receipt"][0].update(deletedAt=None), final(h, "taken").update(at=300.0))),
    ("12", "a payload that is deleted late", lambda h: final(h, "taken")["receipt"][0].update(deletedAt=170.1)),
    ("12", "a payload that is deleted late after an outage", lambda h: (
        copy_of(h, "fault", {"fault": "kill"}, fault="postgres-away", at=115.0, until=125.0),
        final(h, "taken")["receipt"][0].update(deletedAt=180.1))),
    ("12", "a payload in clear text", lambda h: h.append(
        {"sort": "leftover", "what": "payload", "path": "r1/work/x", "tenant": "acme", "at": 200.0})),
    ("13", "an orphan blob", lambda h: copy_of(h, "leftover", {"what": "blob"}, path="blobs/acme/taken/2")),
    ("13", "a blob of a purged job", lambda h: copy_of(h, "leftover", {"what": "blob"}, job="purged")),
    ("13", "an orphan folder", lambda h: copy_of(h, "leftover", {"what": "blob"}, what="work")),
    ("artifact", "an artifact of another attempt", lambda h: final(h, "taken")["artifacts"].update({"run.txt": "artifact of x"})),
    ("artifact", "a lost artifact", lambda h: final(h, "taken").update(artifacts={})),
    ("15", "a step after the cancellation", lambda h: copy_of(
        h, "run", {"job": "cancelled", "step": "a", "what": "begin"}, step="b", run="late", at=105.8)),
    ("15", "a second step after the cancellation", lambda h: [copy_of(
        h, "run", {"job": "cancelled", "step": "a", "what": "begin"}, step=name, run=name, at=at)
        for name, at in (("b", 103.8), ("c", 104.5))]),
    ("15", "a step after the one under way", lambda h: (
        change(h, "run", {"job": "cancelled", "step": "a", "what": "end"}, at=103.9),
        copy_of(h, "run", {"job": "cancelled", "step": "a", "what": "begin"}, step="b", run="late", at=104.0))),
    ("15", "a failure after the cancellation", lambda h: entry(h, "cancelled", 4).update(state="failed")),
    ("16", "a step too many", lambda h: final(h, "fork")["steps"].insert(
        1, dict(final(h, "parent")["steps"][1]))),
    ("16", "another output", lambda h: final(h, "fork")["steps"][0].update(output={"run": "x", "job": "parent"})),
    ("16", "a missing step", lambda h: final(h, "fork")["steps"].pop(0)),
    ("16", "an inherited step that ran", lambda h: copy_of(h, "run", {"job": "fork", "what": "begin"}, step="a", run="x")),
    ("17", "a revoked key that works", lambda h: change(h, "probe", {"sent": 126.0}, status=200)),
    ("17", "a revoked key that finds nothing", lambda h: change(h, "probe", {"sent": 126.0}, status=404)),
    ("18", "a version that went back", lambda h: copy_of(
        h, "read", {"job": "taken", "version": 2}, sent=111.0, done=111.1)),
    ("18", "two states of one version", lambda h: change(h, "read", {"job": "taken", "version": 3}, state="pending")),
    ("19", "a job that never ends", lambda h: final(h, "parent")["body"].update(status="running")),
    ("lease", "a lease lost without a cause", lambda h: remove(h, "fault", fault="kill")),
    ("lease", "a lease lost by a short pause", lambda h: change(h, "fault", {"fault": "kill"}, fault="pause")),
    ("take-over", "a late take-over", lambda h: final(h, "taken")["attempts"][1].update(startedAt=124.1)),
    ("take-over", "a late take-over with short leases", lambda h: (
        change(h, "settings", {}, lease=3.0, renew=0.75, sweep=0.3),
        final(h, "taken")["attempts"][1].update(startedAt=114.0))),
    ("pick-up", "a late pick-up", lambda h: final(h, "released")["attempts"][1].update(startedAt=129.5)),
    ("stop", "a slow stop", lambda h: change(h, "process", {"what": "stopped"}, seconds=26.0)),
    ("stop", "a stop with an error", lambda h: change(h, "process", {"what": "stopped"}, code=1)),
    ("exit", "a server that ends by itself", lambda h: change(h, "process", {"what": "ended"}, expected=False, at=140.0)),
    ("exit", "a server that does not come back", lambda h: copy_of(h, "process", {"what": "stopped"}, what="unready")),
    ("redirect", "a redirect that was followed", lambda h: change(h, "delivery", {"job": "taken"}, path=REDIRECTED)),
]  # fmt: skip


class CheckerTest(unittest.TestCase):
    def test_a_clean_history_has_no_violation(self) -> None:
        self.assertEqual(checker.report(checker.check(sample.clean())), [])

    def test_every_invariant_examines_the_clean_history(self) -> None:
        idle = [verdict.number for verdict in checker.check(sample.clean()) if not verdict.examined]
        self.assertEqual(idle, [])

    def test_every_planted_violation_is_reported(self) -> None:
        for number, name, plant in PLANTED:
            with self.subTest(f"[{number}] {name}"):
                history = sample.clean()
                plant(history)
                found = {verdict.number for verdict in checker.check(history) if verdict.violations}
                self.assertIn(number, found)

    def test_every_invariant_has_a_planted_violation(self) -> None:
        planted = {number for number, _, _ in PLANTED}
        self.assertEqual({number for number, _, _ in checker.INVARIANTS}, planted)

    def test_a_report_names_number_and_job(self) -> None:
        history = sample.clean()
        change(history, "final", {"job": "taken"}, status=410)
        report = checker.report(checker.check(history))
        self.assertTrue(any(line.startswith("[1] ") and "taken" in line for line in report), report)

    def test_a_take_over_is_measured_from_the_death(self) -> None:
        (found,) = invariants_faults.take_overs(History(sample.clean()))
        self.assertEqual(found[:2], (3.5, True))

    def test_a_stop_without_the_database_explains_a_lost_lease_and_other_stops_do_not(self) -> None:
        for outage, explained in (("postgres-away", True), ("endpoint", False)):
            history = sample.clean()
            copy_of(history, "fault", {"fault": "kill"}, fault=outage, at=103.0, until=106.0, replica="r2")
            copy_of(history, "process", {"what": "stopped"}, at=104.0, replica="r1")
            remove(history, "fault", fault="kill")
            violated = {verdict.number for verdict in checker.check(history) if verdict.violations}
            self.assertEqual("lease" not in violated, explained, outage)

    def test_a_stalled_line_explains_a_lost_lease_only_if_leases_are_short(self) -> None:
        for lease, explained in ((3.0, True), (15.0, False)):
            history = sample.clean()
            change(history, "settings", {}, lease=lease, renew=lease / 4)
            killed = next(one for one in history if one["sort"] == "fault" and one["fault"] == "kill")
            killed.update(fault="stall", until=killed["at"] + 1.0)
            violated = {verdict.number for verdict in checker.check(history) if verdict.violations}
            self.assertEqual("lease" not in violated, explained, lease)

    def test_a_pick_up_is_measured_from_the_release(self) -> None:
        (found,) = invariants_faults.pick_ups(History(sample.clean()))
        self.assertAlmostEqual(found[0], 0.1)
        self.assertTrue(found[1])

    def test_a_pick_up_needs_a_free_slot_and_no_fault(self) -> None:
        def able(plant: Plant) -> bool:
            history = sample.clean()
            plant(history)
            ((_, able, _),) = invariants_faults.pick_ups(History(history))
            return able

        others = [{"fault": "cpu"}, {"fault": "postgres-away"}, {"fault": "stall", "replica": "r3"}]
        for other in others:
            fields = {"replica": "r1", **other, "at": 126.0, "until": 127.0}
            self.assertFalse(able(lambda h: copy_of(h, "fault", {"fault": "kill"}, **fields)), other)
        attempt = {"replica": "r3", "attempt": 1, "startedAt": 126.0, "endedAt": 132.0, "status": "completed", "error": None}
        self.assertFalse(able(lambda h: final(h, "parent")["attempts"].extend([attempt] * 4)))
        renamed = {"at": 120.0, "replica": "r3-1", "data": "r3", "pid": 3}
        self.assertFalse(able(lambda h: copy_of(h, "process", {"what": "ended"}, **renamed)))
        self.assertTrue(able(lambda h: final(h, "parent")["attempts"].extend([attempt] * 3)))

    def test_use_of_a_revoked_key_is_measured_from_its_revocation(self) -> None:
        self.assertEqual(invariants_jobs.revocations(History(sample.clean())), {"k1": 1.0})

    def test_a_deletion_is_measured_from_the_end_of_the_job(self) -> None:
        (seconds,) = invariants_effects.deletions(History(sample.clean()))
        self.assertAlmostEqual(seconds, 0.1)


class PlanTest(unittest.TestCase):
    def test_a_seed_has_one_plan(self) -> None:
        self.assertEqual(draw(7, "postgres", 30.0, 3), draw(7, "postgres", 30.0, 3))
        self.assertNotEqual(draw(7, "postgres", 30.0, 3).jobs, draw(8, "postgres", 30.0, 3).jobs)

    def test_plans_have_every_behaviour_and_fault(self) -> None:
        plans = [draw(seed, "postgres", 60.0, 3) for seed in range(10)]
        jobs = [job for plan in plans for job in plan.jobs]
        commands = {control.command for job in jobs for control in job.controls}
        self.assertEqual(commands, {"cancel", "resume", "fork", "purge"})
        self.assertEqual({fault.sort for plan in plans for fault in plan.faults}, {
            "kill", "pause", "term", "cpu", "endpoint", "postgres-crash", "postgres-away", "cut", "freeze", "stall",
            "delay", "swallow", "refuse",
        })  # fmt: skip
        self.assertTrue(any("kill" in job.program for job in jobs))
        self.assertEqual({plan.leases.name for plan in plans}, {"short", "default"})

    def test_faults_end_with_the_load(self) -> None:
        for seed in range(10):
            for fault in draw(seed, "postgres", 60.0, 3).faults:
                self.assertLessEqual(fault.at + fault.seconds, 60.0)


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


class ProxyTest(unittest.TestCase):
    READY, BUSY = message(b"Z", b"I"), message(b"Z", b"T")

    def setUp(self) -> None:
        self.proxy = proxy.Proxy(0, 1)
        self.connection = proxy.Connection(self.proxy, None, None)  # type: ignore[arg-type]

    def test_the_response_to_a_commit_is_swallowed(self) -> None:
        self.proxy.to_swallow = 1
        self.assertIsNone(self.connection.answer(message(b"C", b"COMMIT\0") + self.READY))
        self.assertEqual((self.proxy.to_swallow, self.proxy.swallowed), (0, 1))

    def test_a_write_within_a_transaction_is_no_commit(self) -> None:
        self.proxy.to_swallow = 1
        written = message(b"C", b"INSERT 0 1\0") + self.BUSY
        self.assertEqual(self.connection.answer(written), written)

    def test_messages_in_pieces_arrive_whole_and_in_order(self) -> None:
        sent = message(b"D", b"row") + message(b"C", b"SELECT 0\0") + self.READY
        for swallow in (0, 1):
            self.proxy.to_swallow = swallow
            received = b"".join(self.connection.answer(sent[at : at + 1]) or b"" for at in range(len(sent)))
            self.assertEqual(received, sent)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
