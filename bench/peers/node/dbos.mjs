// DBOS for TypeScript. Submits go through a client, steps run where they are called; finished jobs are kept.

import { DBOS, DBOSClient } from '@dbos-inc/dbos-sdk';
import { count, main } from './harness.mjs';

const QUEUE = 'bench';

let client;
let onRun = () => {};

const noop = DBOS.registerWorkflow(async (load) => onRun(load), { name: 'noop' });
const nothing = async () => {};
const threeSteps = DBOS.registerWorkflow(
  async (_load) => {
    for (const name of ['one', 'two', 'three']) await DBOS.runStep(nothing, { name });
  },
  { name: 'threeSteps' },
);

async function launch(plan, listenQueues) {
  DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: plan.database,
    systemDatabasePoolSize: plan.connections,
    logLevel: 'error',
    enableOTLP: false,
    listenQueues,
  });
  await DBOS.launch();
}

await main({
  async connect(plan) {
    // The first launch creates the tables; it listens to another queue, so that nothing runs yet.
    await launch(plan, ['none']);
    // Polled every second by default.
    await DBOS.registerQueue(QUEUE, { workerConcurrency: 200, minPollingIntervalMs: 5 });
    await DBOS.shutdown();
    client = await DBOSClient.create({
      systemDatabaseUrl: plan.database,
      systemDatabasePoolSize: plan.connections,
      applicationName: 'bench',
    });
  },

  submit: (load) => client.enqueue({ queueName: QUEUE, workflowName: 'noop' }, load),

  // Bypasses the queue: inserts a row and runs in this process.
  start: (load) => DBOS.startWorkflow(noop)(load),

  async work(plan, ran) {
    onRun = ran;
    // Only a drain needs the queue; its polls would slow down the others.
    await launch(plan, [plan.scenario === 'drain' ? QUEUE : 'none']);
  },

  threeSteps: (load) => threeSteps(load),

  unsettled: (plan) =>
    count(plan.database, `select count(*) from dbos.workflow_status where status <> 'SUCCESS'`),
});
