// When waiting jobs may start, by simulated futures of the cluster as it is.

import { useMemo, useState } from "preact/hooks";
import type { Futures, Moved } from "../../generated/views";
import { Failure, request, useUser } from "../session";
import { duration } from "../units";

export interface Estimates {
  ask: () => Promise<void>;
  busy: boolean;
  problem: string;
  told: Futures | null;
  /** When it was told, in seconds since 1970. */
  at: number;
  /** What is known of a job, by `namespace/name`. */
  of: (job: string) => Moved | undefined;
}

// One answer tells of all jobs: the table, and the pages of jobs that are opened from it, go by the same one.
const KEPT_MS = 10 * 60_000;
let last: { told: Futures; at: number; user: string } | null = null;

export function useEstimates(): Estimates {
  const user = useUser();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const [told, setTold] = useState<Futures | null>(last && last.user === user && Date.now() - last.at < KEPT_MS ? last.told : null);
  const known = useMemo(() => new Map(told?.moved.map((each) => [each.name, each])), [told]);
  const ask = async () => {
    setBusy(true);
    setProblem("");
    try {
      const answer = await request<Futures>("POST", "/api/whatif", { changes: "" });
      last = { told: answer, at: Date.now(), user };
      setTold(answer);
    } catch (error) {
      setProblem(error instanceof Failure ? error.message : String(error));
    }
    setBusy(false);
  };
  return { ask, busy, problem, told, at: (last?.at ?? 0) / 1000, of: (job) => known.get(job) };
}

/** `in 2 h 5 min`, `now`, or `not within 4 h`. */
export function when(seconds: number, until: number): string {
  if (seconds < 0) return `not within ${duration(until)}`;
  return seconds < 1 ? "now" : `in ${duration(seconds)}`;
}

/** The same, some time after it was told. */
export function stillWhen(seconds: number, until: number, passed: number): string {
  return when(seconds < 0 ? seconds : Math.max(0, seconds - passed), until);
}

export function between(each: Moved, until: number): string {
  if (each.low === each.high) return each.known ? "" : "its run time is not known";
  return `${each.low < 0 ? "" : `${when(each.low, until)} `}to ${when(each.high, until)}${each.known ? "" : "; run times are guesses"}`;
}

export function Estimate(props: { namespace: string; name: string }) {
  const estimates = useEstimates();
  const { told } = estimates;
  const found = estimates.of(`${props.namespace}/${props.name}`);
  return (
    <section class="card" aria-label="Estimated start">
      <div class="actions">
        <h2>Estimated start</h2>
        <button type="button" disabled={estimates.busy} onClick={() => void estimates.ask()}>
          {estimates.busy ? "Simulating …" : "Estimate"}
        </button>
        <span role="status" class={estimates.problem ? "problem" : ""}>
          {estimates.problem}
          {!told && !estimates.problem && !estimates.busy && (
            <span class="hint">simulates copies of the cluster; nothing is changed</span>
          )}
          {told && !estimates.problem && !found && "Nothing is known of its start."}
          {told && found && !estimates.problem && (
            <>
              <b>{stillWhen(found.before, told.until, Date.now() / 1000 - estimates.at)}</b> <span class="hint">{between(found, told.until)}, by {told.source}</span>
            </>
          )}
        </span>
      </div>
    </section>
  );
}
