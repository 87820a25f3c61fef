// All pages of the seed data, by the name of their screenshot.

export function pages(day) {
  return {
    overview: "/",
    jobs: "/ui/jobs",
    "jobs-failed": "/ui/jobs?status=failed&kind=invoice-pdf",
    "jobs-none": "/ui/jobs?queue=nobody",
    "jobs-tenant": "/ui/jobs?tenant=acme",
    "job-failed": `/ui/jobs/${day.failed}`,
    "job-running": `/ui/jobs/${day.running}`,
    "job-pending": `/ui/jobs/${day.pending}`,
    "job-steps": `/ui/jobs/${day.pipeline}`,
    "job-picture": `/ui/jobs/${day.picture}`,
    "job-purged": `/ui/jobs/${day.purged}`,
    "job-unknown": "/ui/jobs/01M7JNB254GV3EG4EZF3HJA3NV",
    submit: "/ui/submit",
    "submit-form": "/ui/submit/render",
    "submit-json": "/ui/submit/scan",
    webhooks: "/ui/webhooks",
    delivery: `/ui/deliveries/${day.delivery}`,
    usage: "/ui/usage",
    keys: "/ui/keys",
    tenants: "/ui/tenants",
    audit: "/ui/audit",
    api: "/docs",
  };
}

/** Pages that are errors. */
export const REFUSING = new Set(["job-purged", "job-unknown"]);
