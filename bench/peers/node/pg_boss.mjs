// pg-boss: large batches, the next fetched at once while they are full. Finished jobs are kept.

import { PgBoss } from 'pg-boss';
import { count, main } from './harness.mjs';

const QUEUE = 'noop';

let boss;

await main({
  bulk: 5000,

  async connect(plan) {
    // NOTIFY wakes idle workers and slows down submissions: enabled only for pickup.
    const notify = plan.scenario === 'pickup';
    boss = new PgBoss({
      connectionString: plan.database,
      max: plan.connections,
      schedule: false,
      useListenNotify: notify,
    });
    boss.on('error', (error) => console.error(error));
    await boss.start();
    await boss.createQueue(QUEUE, { notify });
  },

  submit: (load) => boss.send(QUEUE, load),

  submitAll: (loads) => boss.insert(QUEUE, loads.map((data) => ({ data }))),

  async work(plan, ran) {
    const batched =
      plan.scenario === 'pickup'
        ? { batchSize: 10 }
        : { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true };
    await boss.work(QUEUE, { pollingIntervalSeconds: 0.5, ...batched }, async (jobs) => {
      for (const job of jobs) ran(job.data);
    });
  },

  unsettled: (plan) =>
    count(plan.database, `select count(*) from pgboss.job where name = '${QUEUE}' and state <> 'completed'`),
});
