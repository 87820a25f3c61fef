"""The plan of a run: everything that one seed decides, before anything starts.

A plan fixes which jobs are submitted, which calls follow, which faults happen when, and how receivers behave. Only the
timing of the machine differs between two runs of a plan.
"""

import random
from dataclasses import dataclass, field

TENANTS = ("acme", "globex", "initech")
JOBS_PER_S = 7.0
# Slots of each replica.
CONCURRENCY = 6
# Events of the endpoint of each tenant; a tenant without one uses webhooks of single jobs.
SUBSCRIPTIONS: dict[str, tuple[str, ...]] = {
    "acme": (),
    "globex": ("job.completed", "job.failed", "job.cancelled"),
}
# Path at the receiver to which it redirects, and which is never to be called.
REDIRECTED = "/redirected"
OWN_WEBHOOK_EVENTS = ("job.running", "job.completed", "job.failed", "job.cancelled")


@dataclass(frozen=True)
class Leases:
    """Settings that decide how fast a lost worker is replaced, in seconds."""

    name: str
    duration: float
    renew: float
    sweep: float
    stop_grace: float


SHORT = Leases("short", duration=3.0, renew=0.75, sweep=0.3, stop_grace=2.0)
DEFAULT = Leases("default", duration=15.0, renew=5.0, sweep=2.0, stop_grace=20.0)


@dataclass(frozen=True)
class Copy:
    """One submission of a job's idempotency key."""

    delay: float
    variant: int = 0  # another number is another input
    abandoned: bool = False  # the client disconnects without reading the response


@dataclass(frozen=True)
class Control:
    """One call that changes a job, some seconds after the one before."""

    command: str
    delay: float
    from_step: str | None = None


@dataclass(frozen=True)
class JobPlan:
    number: int
    at: float
    tenant: str
    kind: str
    key: str
    program: str  # of the kinds with steps
    steps: tuple[str, ...]
    max_attempts: int
    copies: tuple[Copy, ...] = (Copy(0.0),)
    controls: tuple[Control, ...] = ()
    payload_bytes: int = 0
    delay_s: float = 0.0
    priority: int = 0
    retention_s: float = 0.0  # 0: the server's default
    own_webhook: bool = False
    watchers: int = 0
    polled: bool = False
    foreign_reads: bool = False
    seed: int = 0  # of the choices that depend on responses


@dataclass(frozen=True)
class Fault:
    at: float
    sort: str
    target: int  # of a replica or an endpoint
    seconds: float
    detail: float = 0.0


@dataclass(frozen=True)
class Plan:
    seed: int
    store: str
    seconds: float
    replicas: int
    leases: Leases
    jobs: tuple[JobPlan, ...]
    faults: tuple[Fault, ...]
    revocations: tuple[float, ...]
    receiver_seed: int = field(default=0)


def draw(seed: int, store: str, seconds: float, replicas: int, leases: str = "seed") -> Plan:
    """Draws the plan of a seed. One seed in four keeps the default leases, unless `leases` names them."""
    chance = random.Random(f"{seed} {store}")
    by_seed = DEFAULT if chance.random() < 0.25 else SHORT
    chosen = {"short": SHORT, "default": DEFAULT, "seed": by_seed}[leases]
    replicas = replicas if store == "postgres" else 1
    jobs, at, number = [], 0.0, 0
    while at < seconds:
        jobs.append(job_plan(chance, seed, number, at))
        at += chance.expovariate(JOBS_PER_S)
        number += 1
    return Plan(
        seed=seed, store=store, seconds=seconds, replicas=replicas, leases=chosen, jobs=tuple(jobs),
        faults=tuple(fault_plans(chance, store, seconds, replicas, chosen)),
        revocations=tuple(frange(2.0, max(3.0, seconds - 10.0), 11.0)),
        receiver_seed=chance.getrandbits(32),
    )  # fmt: skip


def frange(start: float, stop: float, step: float) -> list[float]:
    return [start + step * index for index in range(max(0, int((stop - start) / step) + 1)) if start < stop]


# --- jobs ---

# Behaviour of a job, and its weight.
BEHAVIOURS = {
    "plain": 34, "retried": 12, "fails": 8, "long": 8, "cancelled": 12, "forked": 8, "purged": 7,
    "killer": 0.6, "demo": 5, "expires": 4,
}  # fmt: skip


def job_plan(chance: random.Random, seed: int, number: int, at: float) -> JobPlan:
    behaviour = chance.choices(list(BEHAVIOURS), list(BEHAVIOURS.values()))[0]
    steps = tuple("abcdef"[: chance.choice((2, 3, 3, 4, 6))])
    work = [round(chance.uniform(0.02, 0.5), 2) for _ in steps]
    endings = ["ok 0"] * len(steps)
    broken = chance.randrange(len(steps))
    controls: list[Control] = []
    max_attempts = 4
    match behaviour:
        case "retried":
            endings[broken] = f"75 {chance.choice((1, 1, 2, 3))}"
        case "fails":
            endings[broken] = f"1 {chance.choice((1, 1, 99))}"
            if chance.random() < 0.7:
                controls.append(Control("resume", chance.uniform(0.1, 1.5)))
        case "long":
            work[broken] = round(chance.uniform(3.0, 6.0), 2)
        case "cancelled":
            work = [round(chance.uniform(0.2, 1.5), 2) for _ in steps]
            controls.append(Control("cancel", chance.choice((0.0, chance.uniform(0.1, 3.0)))))
            if chance.random() < 0.5:
                controls.append(Control("resume", chance.uniform(0.0, 1.0)))
        case "forked":
            controls.append(Control("fork", chance.uniform(0.0, 1.0), chance.choice((None, *steps))))
        case "purged":
            controls.append(Control("purge", chance.uniform(0.0, 2.0)))
        case "killer":
            endings[broken] = f"kill {chance.choice((1, 99))}"
            max_attempts = 2
        case "expires":
            steps, work, endings = ("one",), work[:1], ["ok 0"]
    kind = {"demo": "demo", "expires": "one"}.get(behaviour) or f"chain{len(steps)}"
    with_payload = kind != "demo" and behaviour != "forked" and chance.random() < 0.25
    program = ";".join(
        f"{name} {seconds} {ending}{' artifact' if with_payload and name == steps[-1] else ''}"
        for name, seconds, ending in zip(steps, work, endings)
    )
    return JobPlan(
        number=number, at=at, tenant=chance.choice(TENANTS), kind=kind, key=f"key-{seed}-{number}", program=program,
        steps=() if kind != f"chain{len(steps)}" else steps, max_attempts=max_attempts, copies=copies(chance),
        controls=tuple(controls), payload_bytes=chance.choice((50, 5_000, 300_000)) if with_payload else 0,
        delay_s=round(chance.uniform(0.3, 3.0), 1) if chance.random() < 0.08 else 0.0,
        priority=chance.choice((0, 0, 0, 0, 5, -5)), retention_s=3.0 if behaviour == "expires" else 0.0,
        own_webhook=chance.random() < 0.1, watchers=chance.choice((0, 0, 0, 1, 1, 2)), polled=chance.random() < 0.4,
        foreign_reads=chance.random() < 0.1, seed=chance.getrandbits(32),
    )  # fmt: skip


def copies(chance: random.Random) -> tuple[Copy, ...]:
    """Submissions of one key: the first, which is repeated until it is acknowledged, and others."""
    found = [Copy(0.0)]
    if chance.random() < 0.35:
        for _ in range(chance.choice((1, 1, 2, 6))):
            # Half of them race with the first.
            delay = 0.0 if chance.random() < 0.5 else chance.uniform(0.0, 4.0)
            other = 1 if chance.random() < 0.25 else 0
            found.append(Copy(delay, other, abandoned=chance.random() < 0.3))
    return tuple(found)


# --- faults ---

FAULTS = {"kill": 5, "pause": 3, "term": 2, "cpu": 1, "endpoint": 4}
DATABASE_FAULTS = {
    "postgres-crash": 2, "postgres-away": 1, "cut": 3, "freeze": 2, "stall": 2, "delay": 2, "swallow": 5, "refuse": 1,
}  # fmt: skip
# Seconds after the start and before the end without new faults.
CALM_S = 1.0


def fault_plans(
    chance: random.Random, store: str, seconds: float, replicas: int, leases: Leases
) -> list[Fault]:
    weights = FAULTS | (DATABASE_FAULTS if store == "postgres" else {})
    # Pauses and outages are compared with the lease.
    lease = leases.duration
    interval = 2.5 if store == "postgres" else 4.0
    faults, at = [], CALM_S
    while (at := at + chance.expovariate(1 / interval)) < seconds - CALM_S:
        sort = chance.choices(list(weights), list(weights.values()))[0]
        length = {
            "kill": chance.uniform(0.0, 2.0),  # until the restart
            "term": chance.uniform(0.0, 1.0),
            "pause": chance.choice((chance.uniform(0.2, 0.6), chance.uniform(1.2, 2.0))) * lease,
            "cpu": chance.uniform(1.0, 4.0),
            "endpoint": chance.uniform(0.5, 3.0),
            "postgres-crash": chance.uniform(0.0, 1.0),
            "postgres-away": chance.uniform(1.1, 1.6) * lease,
            "stall": chance.uniform(0.5, 4.0),
            "delay": chance.uniform(1.0, 4.0),
            "refuse": chance.uniform(0.3, 1.3) * lease,
        }.get(sort, 0.0)
        detail = {
            "delay": chance.uniform(0.01, 0.2),  # seconds
            "swallow": float(chance.randint(1, 4)),  # responses
            "kill": float(chance.random() < 0.35),  # restarted under its name
            "endpoint": float(chance.randrange(5)),  # see receiver.MODES
        }.get(sort, 0.0)
        # Everything is well at the end of the load.
        length = min(length, max(0.0, seconds - at))
        faults.append(Fault(at, sort, chance.randrange(replicas * 12), length, detail))
    return faults
