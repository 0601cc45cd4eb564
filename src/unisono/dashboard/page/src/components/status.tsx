// What is to be said of a view's connection.

import type { Live } from "../stream";

export function Status(props: { live: Live<unknown>; ready: boolean }) {
  const { lost, problem, reading, view } = props.live;
  const text = problem
    ? problem
    : lost
      ? "The server does not answer; what you see is what it said last. Trying again …"
      : view && props.ready
        ? ""
        : reading || "Reading the cluster …";
  return (
    <p class={problem || lost ? "status problem" : "status"} role="status">
      {text}
    </p>
  );
}
