// Who used how much, also of jobs that are gone: what `unisono report` and `unisono sacct` tell.

import { useMemo } from "preact/hooks";
import { Card, Grid } from "../components/card";
import { JobLink } from "../components/link";
import { State } from "../components/state";
import { type Accounts, type JobLine, RANGES, type Report, type Row, secondsOf, usePast, type Waiting } from "../history";
import { go, useRoute, withQuery } from "../route";
import { clock, count, duration, number, percent } from "../units";

const BY = ["queue", "namespace", "user", "day", "job"] as const;
const STATES: Record<string, string> = { Completed: "succeeded", Failed: "failed", Running: "running", Pending: "waiting" };

export function Usage() {
  const route = useRoute();
  const range = route.query.get("range") ?? "7d";
  const by = route.query.get("by") ?? "queue";
  const until = useMemo(() => Math.ceil(Date.now() / 1000), [range, by]);
  const times = { from: String(until - secondsOf(range)), to: String(until) };
  const { told, problem } = usePast<Report>("report", { ...times, by });
  return (
    <main>
      <h1>Usage</h1>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label>
          Time
          <select value={range} onChange={(event) => go(withQuery(route, { range: event.currentTarget.value }))}>
            {RANGES.map(([name, title]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <label>
          By
          <select value={by} onChange={(event) => go(withQuery(route, { by: event.currentTarget.value }))}>
            {BY.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <output>
          {told?.since ? `The history begins ${clock(told.since)}. ` : ""}
          <span class="hint">
            For programs: <code>unisono report --from=-{range} --by {by} -o csv</code>
          </span>
        </output>
      </form>
      {problem && <p class="problem">{problem}</p>}
      {told && <Told report={told} by={by} />}
      <Jobs times={times} />
    </main>
  );
}

function Told(props: { report: Report; by: string }) {
  const { report, by } = props;
  const cards = (report.total.gpu_hours ?? 0) > 0;
  const most = Math.max(0, ...report.rows.map((row) => hours(row, cards)));
  const capacity = Object.entries(report.capacity ?? {});
  const all = capacity.reduce((sum, [name, amount]) => sum + (name.includes("gpu") ? amount : 0), 0);
  return (
    <>
      <p class="tiles">
        <span class="tile">
          <b>{number(report.total.gpu_hours ?? 0)}</b> GPU-hours{all > 0 ? `, ${percent((report.total.gpu_hours ?? 0) / all)} of all` : ""}
        </span>
        <span class="tile">
          <b>{number(report.total.cpu_hours ?? 0)}</b> CPU-hours
        </span>
        <span class="tile">
          <b>{count(report.total.waiting?.jobs ?? 0, "job")}</b> started
          {report.total.waiting?.jobs ? `, half of them within ${duration(report.total.waiting.p50 ?? 0)}` : ""}
        </span>
        <span class="tile">
          <b>{report.total.evictions ?? 0}</b> {report.total.evictions === 1 ? "eviction" : "evictions"}
        </span>
        {!report.unknown?.includes("failures") && (
          <span class="tile">
            <b>{report.total.failures ?? 0}</b> failed {report.total.failures === 1 ? "pod" : "pods"}
          </span>
        )}
      </p>
      {report.unknown && <p class="hint">From Prometheus, which keeps no single jobs, users or namespaces: what it does not know is left out.</p>}
      {report.summed && <p class="hint">A part of this time is known as sums of hours alone.</p>}
      <Card title={`Use by ${by}`}>
        {report.rows.length === 0 && <p class="empty">Nothing ran in this time that you may see.</p>}
        {report.rows.length > 0 && (
          <Grid
            label={`Use by ${by}`}
            titles={[by.charAt(0).toUpperCase() + by.slice(1), "GPU-hours", "CPU-hours", "Share", "Succeeded", "Failed", "Stopped", "Median wait", "95 % within", "Evictions"]}
            right={[1, 2, 4, 5, 6, 7, 8, 9]}
          >
            {report.rows.slice(0, 200).map((row) => (
              <tr key={row.key}>
                <td>{row.key || "(none)"}</td>
                <td class="number">{row.gpu_hours ? number(row.gpu_hours) : ""}</td>
                <td class="number">{row.cpu_hours ? number(row.cpu_hours) : ""}</td>
                <td class="free">
                  <span class="bar" role="img" aria-label={`${number(hours(row, cards))} ${cards ? "GPU" : "CPU"}-hours`}>
                    <span class="bar-fill" style={{ width: `${most ? (100 * hours(row, cards)) / most : 0}%` }} />
                  </span>
                </td>
                <td class="number">{row.ended?.["Completed"] ?? ""}</td>
                <td class="number">{row.ended?.["Failed"] ?? ""}</td>
                <td class="number">{stopped(row.ended ?? {}) || ""}</td>
                <Waits waiting={row.waiting} />
                <td class="number">{row.evictions || ""}</td>
              </tr>
            ))}
          </Grid>
        )}
        {report.rows.length > 200 && <p class="hint">The first 200 of {report.rows.length} are shown.</p>}
      </Card>
      {(report.sizes ?? []).length > 0 && (
        <Card title="Waiting by queue and size">
          <Grid label="Waiting by queue and size" titles={["Queue", "Size", "Jobs", "Median wait", "95 % within", "Longest"]} right={[2, 3, 4, 5]}>
            {(report.sizes ?? []).slice(0, 100).map((each) => (
              <tr key={`${each.queue} ${each.size}`}>
                <td>{each.queue || "(none)"}</td>
                <td>{each.size}</td>
                <td class="number">{each.waiting.jobs}</td>
                <Waits waiting={each.waiting} />
                <td class="number">{duration(each.waiting.max ?? 0)}</td>
              </tr>
            ))}
          </Grid>
        </Card>
      )}
    </>
  );
}

/** Jobs that a user aborted, terminated or deleted. */
function stopped(ended: Record<string, number>): number {
  return Object.entries(ended).reduce((sum, [how, number]) => sum + (how === "Completed" || how === "Failed" ? 0 : number), 0);
}

function hours(row: Row, cards: boolean): number {
  return (cards ? row.gpu_hours : row.cpu_hours) ?? 0;
}

function Waits(props: { waiting: Waiting | undefined }) {
  const { waiting } = props;
  return (
    <>
      <td class="number">{waiting?.jobs ? duration(waiting.p50 ?? 0) : ""}</td>
      <td class="number">{waiting?.jobs ? duration(waiting.p95 ?? 0) : ""}</td>
    </>
  );
}

function Jobs(props: { times: Record<string, string> }) {
  const { told, problem } = usePast<Accounts>("jobs", props.times);
  if (problem || !told) return null;
  const jobs = [...told.jobs].reverse();
  return (
    <Card title="Jobs of this time" hint="also those that were deleted">
      {jobs.length === 0 && <p class="empty">There was no job that you may see.</p>}
      {jobs.length > 0 && (
        <Grid
          label="Jobs of this time"
          titles={["State", "Job", "Kind", "Queue", "User", "GPUs", "Created", "Waited", "Ran", "GPU-hours", "End"]}
          right={[5, 7, 8, 9]}
        >
          {jobs.slice(0, 200).map((job) => (
            <tr key={job.uid}>
              <td>
                <State state={STATES[job.state] ?? "suspended"} text={job.state.toLowerCase()} />
              </td>
              <td>
                {job.state === "Deleted" ? `${job.namespace}/${job.name}` : <JobLink job={`${job.namespace}/${job.name}`} />}
              </td>
              <td>{job.kind}</td>
              <td>{job.queue}</td>
              <td>{job.user}</td>
              <td class="number">{job.gpus ? number(job.gpus) : ""}</td>
              <td>{clock(job.created)}</td>
              <td class="number">{job.started ? duration(job.started - job.created) : ""}</td>
              <td class="number">{job.elapsed ? duration(job.elapsed) : ""}</td>
              <td class="number">{job.gpu_hours ? number(job.gpu_hours) : ""}</td>
              <td class="wrap">{end(job)}</td>
            </tr>
          ))}
        </Grid>
      )}
      {jobs.length > 200 && <p class="hint">The latest 200 of {jobs.length} are shown.</p>}
    </Card>
  );
}

function end(job: JobLine): string {
  const code = job.exit_code ? `exit code ${job.exit_code}` : "";
  return [code, job.message ?? ""].filter(Boolean).join(": ");
}
