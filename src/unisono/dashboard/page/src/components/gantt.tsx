// The life of a gang and its pods: waiting, starting, running.

import type { JobRow, PodRow } from "../../generated/views";
import { clock, duration } from "../units";

const MOST = 64;

export function Gantt(props: { job: JobRow; pods: PodRow[]; admitted: number; now: number }) {
  const { job, now } = props;
  const pods = props.pods.slice(0, MOST);
  const ends = pods.map((pod) => pod.finished || now);
  const begin = Math.min(job.created || now, ...pods.map((pod) => pod.created || now));
  const end = Math.max(begin + 1, job.state === "waiting" || job.state === "running" || !ends.length ? now : Math.max(...ends));
  const place = (from: number, to: number) => ({
    left: `${(100 * (from - begin)) / (end - begin)}%`,
    width: `${Math.max(0.3, (100 * (to - from)) / (end - begin))}%`,
  });
  return (
    <figure class="gantt">
      <figcaption>
        {clock(begin)} to {clock(end)} ({duration(end - begin)})
      </figcaption>
      {pods.map((pod) => {
        const placed = pod.scheduled || pod.started;
        const until = pod.finished || now;
        const waited = (placed || until) - pod.created;
        const text = `${pod.name}: waited ${duration(waited)}${pod.started ? `, ran ${duration(until - pod.started)}` : ""}`;
        return (
          <div key={pod.name} class="gantt-row">
            <span class="gantt-name">{pod.name}</span>
            <span class="gantt-track" role="img" aria-label={text} title={text}>
              <i class="wait" style={place(pod.created, placed || until)} />
              {placed > 0 && <i class="start" style={place(placed, pod.started || until)} />}
              {pod.started > 0 && (
                <i class={pod.phase === "Failed" ? "fail" : "run"} style={place(pod.started, until)} />
              )}
            </span>
          </div>
        );
      })}
      {props.pods.length > MOST && <p class="hint">The first {MOST} pods are drawn.</p>}
    </figure>
  );
}
