/** Upper bounds of the buckets in which latencies are counted, in ms; one more bucket has what took longer. */
export const LATENCY_BOUNDS = [
  ...[1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700],
  ...[1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000, 30_000],
];

/** What only grows while its source exists. */
export type Counts = {
  /** CPU time in ms. */
  cpuMs?: number;
  restarts?: number;
  /** Bytes. */
  networkIn?: number;
  networkOut?: number;
  /** Requests by the first digit of their status, 2 to 5. */
  statuses?: number[];
  /** Requests by bucket of `LATENCY_BOUNDS`. */
  latencies?: number[];
};

export type Counter = Counts & {
  /** What was counted, never reused: a replica, a process of the router. */
  source: string;
  /** When it began to count from 0, in ms. */
  since: number;
};

/** What is measured of a service at one moment. */
export type Measurement = {
  serviceId: string;
  /** How many replicas take requests, or run; absent where it has no server of its own. */
  replicas?: number;
  /** Bytes that all replicas have in memory. */
  memory?: number;
  /** Bytes that an addon stores, and how many clients are connected to it. */
  storageUsed?: number;
  connections?: number;
  /** How many cores all replicas use, where that is measured and not counted. */
  cores?: number;
  counters: Counter[];
};

/**
 * What may not be measurable in an installation. `server`: whether an addon's own runs, and how often it was restarted.
 * `storage`: how much of its `capacity` an addon uses.
 */
export type Measurable =
  | "cpu"
  | "memory"
  | "server"
  | "network"
  | "requests"
  | "storage"
  | "capacity"
  | "connections";

/** Values over time, `at` in ms. */
export type Points = { at: number; value: number }[];

/** A volume of an addon that is nearly full. */
export type FillingVolume = { serviceId: string; usedBytes: number; capacityBytes: number };
