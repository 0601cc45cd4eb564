// What the API server remembers: shares of queues over time, and who used how much.

import { useEffect, useState } from "preact/hooks";
import { Failure, request } from "./session";

/** One resource of one queue (empty: of the cluster); amounts in thousandths, or bytes, one for each time. */
export interface Line {
  queue: string;
  resource: string;
  used?: number[];
  deserved?: number[];
  capability?: number[];
  capacity?: number[];
}

export interface Series {
  times: number[];
  lines: Line[];
  /** When the history begins; what is told of earlier times means nothing. */
  since?: number;
}

export interface Waiting {
  jobs?: number;
  p50?: number;
  p95?: number;
  max?: number;
}

export interface Row {
  key: string;
  ended?: Record<string, number>;
  hours?: Record<string, number>;
  gpu_hours?: number;
  cpu_hours?: number;
  waiting?: Waiting;
  evictions?: number;
  failures?: number;
  kind?: string;
  capacity?: Record<string, number>;
}

export interface Report {
  start: number;
  end: number;
  rows: Row[];
  total: Row;
  sizes?: { queue: string; size: string; waiting: Waiting }[];
  capacity?: Record<string, number>;
  summed?: boolean;
  more?: boolean;
  since?: number;
  /** Fields of the rows that the source does not keep. */
  unknown?: string[];
}

export interface JobLine {
  uid: string;
  kind: string;
  namespace: string;
  name: string;
  queue: string;
  user: string;
  state: string;
  created: number;
  started?: number;
  ended?: number;
  elapsed?: number;
  gpus?: number;
  cpus?: number;
  pods?: number;
  exit_code?: number;
  message?: string;
  gpu_hours?: number;
  cpu_hours?: number;
}

export interface Accounts {
  jobs: JobLine[];
  more?: boolean;
}

/** An answer about the past, asked for again every `everyMs`; what was told before stays until then. */
export function usePast<T>(what: string, query: Record<string, string>, everyMs = 0): { told: T | null; problem: string } {
  const [state, setState] = useState<{ told: T | null; problem: string; of: string }>({ told: null, problem: "", of: what });
  const path = `/api/history/${what}?${new URLSearchParams(query)}`;
  useEffect(() => {
    let current = true;
    const ask = () =>
      request<T>("GET", path).then(
        (told) => current && setState({ told, problem: "", of: what }),
        (error: unknown) =>
          current && setState((old) => ({ ...old, problem: error instanceof Failure ? error.message : String(error) })),
      );
    void ask();
    const timer = everyMs ? window.setInterval(() => document.hidden || void ask(), everyMs) : 0;
    return () => {
      current = false;
      window.clearInterval(timer);
    };
  }, [path, everyMs]);
  return { told: state.of === what ? state.told : null, problem: state.problem };
}

export const RANGES: [string, string, number][] = [
  ["1h", "last hour", 3600],
  ["1d", "last day", 86400],
  ["7d", "last 7 days", 7 * 86400],
  ["30d", "last 30 days", 30 * 86400],
];

/** Seconds of a range by its name. */
export function secondsOf(name: string): number {
  return RANGES.find(([each]) => each === name)?.[2] ?? 86400;
}
