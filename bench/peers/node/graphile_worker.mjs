// graphile-worker: a local queue, and completions by the batch. Finished jobs are deleted.

import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import { count, main } from './harness.mjs';

const logger = new Logger(() => () => {});
const BATCHED = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };

let utils;

await main({
  bulk: 5000,

  async connect(plan) {
    utils = await makeWorkerUtils({
      connectionString: plan.database,
      maxPoolSize: plan.connections,
      logger,
    });
    await utils.migrate();
  },

  submit: (load) => utils.addJob('noop', load),

  submitAll: (loads) => utils.addJobs(loads.map((payload) => ({ identifier: 'noop', payload }))),

  async work(plan, ran) {
    await run({
      logger,
      noHandleSignals: true,
      taskList: { noop: async (load) => ran(load) },
      preset: {
        worker: { connectionString: plan.database, concurrentJobs: 24, maxPoolSize: 25, ...BATCHED },
      },
    });
  },

  unsettled: (plan) =>
    count(plan.database, 'select count(*) from graphile_worker._private_jobs'),
});
