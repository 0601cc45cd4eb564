// The life of a gang and its pods: waiting, starting, running.

import type { JobRow, PodRow } from "../../generated/views";
import { clock, duration } from "../units";

const MOST = 64;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 7 * 86400];

export function timeOf(time: number, day: boolean, seconds: boolean): string {
  const date = new Date(time * 1000);
  if (day) return date.toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(seconds ? { second: "2-digit" } : {}) });
}

/** Times of the axis: five at most, at full steps. */
export function ticks(begin: number, end: number): number[] {
  const step = STEPS.find((each) => (end - begin) / each <= 5) ?? (end - begin) / 5;
  const found = [];
  // One at the very end would stand beside the picture.
  for (let at = Math.ceil(begin / step) * step; at <= end - (end - begin) * 0.07; at += step) found.push(at);
  return found;
}

/** Where a time lies, in percent; times that an object claims may lie beyond both ends. */
export function partOf(begin: number, end: number): (time: number) => number {
  return (time) => Math.min(100, Math.max(0, (100 * (time - begin)) / (end - begin)));
}

/** The row of times above the others. */
export function Axis(props: { times: number[]; part: (time: number) => number; label: (time: number) => string }) {
  return (
    <div class="gantt-row" aria-hidden="true">
      <span />
      <span class="gantt-axis">
        {props.times.map((time) => (
          <span key={time} style={{ left: `${props.part(time)}%` }}>
            {props.label(time)}
          </span>
        ))}
      </span>
    </div>
  );
}

/** `waited 5 min, ran 2 h, ends within 10 min` */
function lifeOf(job: JobRow, until: number): string {
  const told = [`waited ${duration((job.started || until) - job.created)}`];
  if (job.started) told.push(`ran ${duration((job.ended || until) - job.started)}`);
  if (job.ends > until) told.push(`ends within ${duration(job.ends - until)}`);
  return `whole job: ${told.join(", ")}`;
}

export function Gantt(props: { job: JobRow; pods: PodRow[]; admitted: number; now: number }) {
  const { job, now } = props;
  const pods = props.pods.slice(0, MOST);
  const ends = pods.map((pod) => pod.finished || now);
  const placed = pods.some((pod) => pod.scheduled || pod.started);
  const begin = Math.min(job.created || now, ...pods.map((pod) => pod.created || now));
  const past = Math.max(begin + 1, job.state === "waiting" || job.state === "running" || !ends.length ? now : Math.max(...ends));
  // What it says of its end is drawn, too, but never so that what has been cannot be seen any more.
  const ahead = job.state === "running" && job.ends > now ? Math.min(job.ends - now, 3 * (now - begin)) : 0;
  const end = past + ahead;
  const part = partOf(begin, end);
  const place = (from: number, to: number) => ({
    left: `${part(from)}%`,
    width: `${Math.max(0.3, part(to) - part(from))}%`,
  });
  if (!pods.length) return null;
  const times = ticks(begin, end);
  const day = end - begin > 86400;
  return (
    <figure class="gantt">
      <figcaption>
        <span>
          {clock(begin)} to {clock(past)} ({duration(past - begin)})
        </span>
        <span class="legend">
          <i class="wait" /> waited for a node
          <i class="start" /> starting
          <i class="run" /> ran
          <i class="fail" /> failed
          {ahead > 0 && (
            <>
              <i class="ahead" /> ends by then
            </>
          )}
          {props.admitted > 0 && (
            <>
              <i class="gang-mark" /> gang placed
            </>
          )}
        </span>
      </figcaption>
      <Axis times={times} part={part} label={(time) => timeOf(time, day, end - begin < 120)} />
      <div class="gantt-row whole">
        <span class="gantt-name">whole job</span>
        <span class="gantt-track" role="img" aria-label={lifeOf(job, past)} title={lifeOf(job, past)}>
          {times.map((time) => (
            <i key={time} class="tick" style={{ left: place(time, time).left }} />
          ))}
          <i class="wait" style={place(job.created, job.started || past)} />
          {job.started > 0 && <i class={job.state === "failed" ? "fail" : "run"} style={place(job.started, job.ended || past)} />}
          {ahead > 0 && <i class="ahead" style={place(now, now + ahead)} />}
        </span>
      </div>
      {/* While no pod has a node, their rows would all say the same. */}
      {(placed ? pods : []).map((pod) => {
        const got = pod.scheduled || pod.started;
        const until = pod.finished || now;
        const waited = (got || until) - pod.created;
        const text = `${pod.name}: waited ${duration(waited)}${pod.started ? `, ran ${duration(until - pod.started)}` : ""}`;
        return (
          <div key={pod.name} class="gantt-row">
            <span class="gantt-name">{pod.name}</span>
            <span class="gantt-track" role="img" aria-label={text} title={text}>
              {times.map((time) => (
                <i key={time} class="tick" style={{ left: place(time, time).left }} />
              ))}
              <i class="wait" style={place(pod.created, got || until)} />
              {got > 0 && <i class="start" style={place(got, pod.started || until)} />}
              {pod.started > 0 && (
                <i class={pod.phase === "Failed" ? "fail" : "run"} style={place(pod.started, until)} />
              )}
              {props.admitted >= begin && <i class="gang-mark" style={{ left: place(props.admitted, props.admitted).left }} />}
            </span>
          </div>
        );
      })}
      {props.pods.length > MOST && <p class="hint">The first {MOST} pods are drawn.</p>}
    </figure>
  );
}
