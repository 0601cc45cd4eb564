// Causes of waiting in words that people use; the names are those of unisono.api.verdict.

const TITLES: Record<string, string> = {
  NoPods: "Has no pods yet",
  TooFewPods: "Too few pods",
  Invalid: "Contradicts itself",
  QueueMissing: "No such queue",
  QueueClosed: "Queue is closed",
  QueueInvalid: "Queue lets nothing run",
  QueueForbidden: "Queue is for others",
  OverCapability: "Queue is at its limit",
  OverShare: "Queue has its share",
  ClusterOvercommitted: "Cluster is promised away",
  Quota: "Namespace quota",
  TooLarge: "Larger than the cluster",
  NodesFull: "Nodes are full",
  Filters: "No node is suitable",
  PortTaken: "Port is taken",
  Reserved: "Room is kept for others",
  Topology: "No domain has room",
  Gated: "Held by gates",
  WaitingForVictims: "Evicted pods are leaving",
  PluginFailed: "A plug-in failed",
  Invariant: "Decision was dropped",
  NoNodes: "There are no nodes",
  Extender: "An extender refuses",
  BindFailed: "Server refuses its binds",
  Budget: "Budget is used up",
  Licenses: "Too few licences are left",
  NotTried: "Not looked at yet",
};

/** A cause in words; one that a newer scheduler knows stays as it is. */
export function causeTitle(cause: string): string {
  return TITLES[cause] ?? cause;
}

/** The first thing that a line says, for places where all of it has no room. */
export function root(line: string): string {
  return line.split("; ")[0] ?? line;
}
