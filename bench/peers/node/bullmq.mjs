// BullMQ on a Redis that syncs each write before it answers. Finished jobs are deleted.

import { Queue, Worker } from 'bullmq';
import { main } from './harness.mjs';

const NAME = 'noop';
const DELETE = { removeOnComplete: true, removeOnFail: true };

let queue;
let connection;

await main({
  bulk: 1000,
  vacuum: false,

  async connect(plan) {
    const { hostname: host, port } = new URL(plan.database);
    connection = { host, port: Number(port), maxRetriesPerRequest: null };
    queue = new Queue(NAME, { connection, defaultJobOptions: DELETE });
    await queue.waitUntilReady();
  },

  submit: (load) => queue.add(NAME, load),

  submitAll: (loads) => queue.addBulk(loads.map((data) => ({ name: NAME, data }))),

  async work(plan, ran) {
    const worker = new Worker(NAME, async (job) => ran(job.data), { connection, concurrency: 200 });
    await worker.waitUntilReady();
  },

  unsettled: () => queue.getJobCountByTypes('waiting', 'active', 'delayed', 'prioritized'),
});
