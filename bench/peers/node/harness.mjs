// The scenarios, the same for each peer and in the terms of `longhaul bench`: one of them, one JSON line.
//
// Usage: node PEER.mjs SCENARIO --database URL --jobs N --concurrency N --input-bytes N [--marks]
//
// A peer is an object of
//   bulk                  jobs of one call that submits many; none where no such call is documented
//   connect(plan)         creates the tables; nothing runs yet
//   submit(load)          one durable submit
//   submitAll(loads)      many at once
//   work(plan, ran)       starts workers; their handlers begin with ran(load)
//   unsettled()           number of jobs that are not settled
//   start(load)           as submit, or a documented call that bypasses the queue
//   threeSteps(load)      runs a job of three steps to its result, for peers that have steps
//   settled(), vacuum()   if the peer needs something other than a database query

import { readSync, writeSync } from 'node:fs';
import { parseArgs } from 'node:util';
import pg from 'pg';

const PICKUP_EVERY_MS = 20;
const LOOK_EVERY_MS = 2;
const GIVE_UP_AFTER_MS = 120_000;
// Opens connections and compiles hot code.
const WARM_UP_CALLS = 200;
const WARM_UP_PICKUPS = 50;
const STEPS = 3;

const now = () => performance.now();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function main(peer) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      database: { type: 'string' },
      jobs: { type: 'string' },
      concurrency: { type: 'string' },
      'input-bytes': { type: 'string' },
      marks: { type: 'boolean' },
    },
  });
  const plan = {
    scenario: positionals[0],
    database: values.database,
    jobs: Number(values.jobs),
    concurrency: Number(values.concurrency),
    filler: 'x'.repeat(Number(values['input-bytes'])),
    marks: values.marks,
    // One a caller, up to where more of them gained nothing clear here.
    connections: Math.min(64, Math.max(16, Number(values.concurrency))),
  };
  if (!Object.hasOwn(SCENARIOS, plan.scenario)) throw new Error(`no scenario ${plan.scenario}`);
  await peer.connect(plan);
  const line = await SCENARIOS[plan.scenario](plan, peer);
  console.log(JSON.stringify({ scenario: plan.scenario, jobs: plan.jobs, ...line }));
  // Exits without waiting for sleeping threads: all results are on disk.
  process.exit(0);
}

/** Prints a line and waits for one, so that the calling process can read counters of the system. */
function mark(plan, point) {
  if (!plan.marks) return;
  writeSync(1, `${JSON.stringify({ mark: point })}\n`);
  readSync(0, Buffer.alloc(64));
}

/** The number that a query of one row and one column gives. */
export async function count(database, query) {
  const client = new pg.Client({ connectionString: database });
  await client.connect();
  try {
    const { rows } = await client.query({ text: query, rowMode: 'array' });
    return Number(rows[0]?.[0]);
  } finally {
    await client.end();
  }
}

const SCENARIOS = {
  async submit(plan, peer) {
    const call = () => peer.submit(load(plan));
    await callers(plan.concurrency, plan.concurrency + WARM_UP_CALLS, call);
    mark(plan, 'start');
    return report(plan, await callers(plan.concurrency, plan.jobs, call));
  },

  async bulk(plan, peer) {
    await peer.submit(load(plan));
    mark(plan, 'start');
    return report(plan, await submitInBulk(plan, peer));
  },

  // From the start of the workers until the last job is settled in the database.
  async drain(plan, peer) {
    if (peer.bulk) await submitInBulk(plan, peer);
    else await callers(32, plan.jobs, () => peer.submit(load(plan)));
    // Otherwise autovacuum would run in the middle of some runs and not of others.
    if (peer.vacuum !== false) await count(plan.database, 'vacuum analyze');
    let left = plan.jobs;
    mark(plan, 'start');
    const began = now();
    await peer.work(plan, () => void left--);
    await until('all run', () => left <= 0);
    await until('all settled', async () => (await peer.unsettled(plan)) === 0);
    return report(plan, { ms: now() - began, took: [] });
  },

  // One job at a time on idle workers.
  async pickup(plan, peer) {
    let pickedUp;
    await peer.work(plan, (load) => pickedUp?.(now() - load.submitted));
    const start = peer.start ?? peer.submit;
    const took = [];
    let began = now();
    for (let number = 0; number < WARM_UP_PICKUPS + plan.jobs; number++) {
      if (number === WARM_UP_PICKUPS) {
        const paused = now();
        mark(plan, 'start');
        began += now() - paused;
      }
      const wait = began + number * PICKUP_EVERY_MS - now();
      if (wait > 0) await sleep(wait);
      const waited = new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error('not picked up')), GIVE_UP_AFTER_MS);
        pickedUp = (ms) => (clearTimeout(timer), resolve(ms));
      });
      await start(load(plan));
      if (number >= WARM_UP_PICKUPS) took.push(await waited);
      else await waited;
    }
    return report(plan, { ms: now() - began, took });
  },

  async steps(plan, peer) {
    await peer.work(plan, () => {});
    const call = () => peer.threeSteps(load(plan));
    await callers(plan.concurrency, plan.concurrency + WARM_UP_CALLS, call);
    mark(plan, 'start');
    return report(plan, await callers(plan.concurrency, plan.jobs, call), STEPS);
  },
};

function load(plan) {
  return { submitted: now(), filler: plan.filler };
}

/** How long so many calls took by so many callers, in all and each. */
async function callers(concurrency, jobs, call) {
  const took = [];
  let turn = 0;
  const began = now();
  const caller = async () => {
    while (turn++ < jobs) {
      const one = now();
      await call();
      took.push(now() - one);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  return { ms: now() - began, took };
}

async function submitInBulk(plan, peer) {
  const took = [];
  const began = now();
  for (let first = 0; first < plan.jobs; first += peer.bulk) {
    const one = now();
    const many = Math.min(peer.bulk, plan.jobs - first);
    await peer.submitAll(Array.from({ length: many }, () => load(plan)));
    took.push(now() - one);
  }
  return { ms: now() - began, took };
}

async function until(what, done) {
  const deadline = now() + GIVE_UP_AFTER_MS;
  while (!(await done())) {
    if (now() > deadline) throw new Error(`not ${what} after ${GIVE_UP_AFTER_MS} ms`);
    await sleep(LOOK_EVERY_MS);
  }
}

function report(plan, { ms, took }, steps = 0) {
  mark(plan, 'end');
  const seconds = ms / 1000;
  const line = { seconds, jobsPerS: plan.jobs / seconds };
  if (steps) line.stepsPerS = (steps * plan.jobs) / seconds;
  if (took.length) {
    took.sort((a, b) => a - b);
    // The same ranks as those of `longhaul bench`.
    const at = (percent) => took[Math.ceil((took.length * percent) / 100) - 1];
    line.p50Ms = at(50);
    line.p99Ms = at(99);
  }
  return line;
}
