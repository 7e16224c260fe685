/** What a Job that copies the data of an addon reads and reports; both ends are of the same version. */

/** A part of the object that is written: where to, and how many bytes it has unless it is the last. */
export type Part = { url: string; bytes: number };

/** In the file `REQUEST` of the container. */
export type CopyRequest =
  | { send: Part[]; redis?: { host: string; port: number } }
  | FetchRequest
  | ArchiveRequest;
/** Nothing is copied: the server archives what was written up to now. */
export type ArchiveRequest = { archive: true };
/** `foreign`, `uploaded`: as in `StoredBackup`. */
export type FetchRequest = {
  fetch: string;
  to: "pipe" | "volume" | "scratch";
  foreign?: boolean;
  uploaded?: boolean;
};

/** In the termination message of the container. */
export type CopyReport = { parts: number; version: string } | { fetched: true } | { problem: string };
/** What a copy that succeeded reports; `counted`, by the program of the database, of one that was restored to the side. */
export type CopyResult = Exclude<CopyReport, { problem: string }> & { counted?: number };

const MiB = 1024 ** 2;

/** A part is kept on disk while it is sent, and their number is limited: they grow, to 132 GiB in all. */
const PART_SIZES = [
  { count: 64, bytes: 16 * MiB },
  { count: 64, bytes: 64 * MiB },
  { count: 500, bytes: 256 * MiB },
];

/** The sizes of all parts, in order. */
export const partSizes: number[] = PART_SIZES.flatMap(({ count, bytes }) => Array(count).fill(bytes));

/** Paths in the containers. */
export const COPY = {
  request: "/request/request.json",
  /** Shared by the containers of a pod. */
  shared: "/copy",
  /** Between the program of the database and the one that copies. */
  pipe: "/copy/data",
  /** Written by the program of the database after the last byte: its exit code. */
  status: "/copy/status",
  version: "/copy/version",
  part: "/part/part",
  volume: "/data/received.rdb",
  scratch: "/scratch/received.rdb",
  report: "/dev/termination-log",
} as const;
