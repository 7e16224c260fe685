import { gzipSync } from "node:zlib";
import { type ArchiveEntry, archiveOf, tarOf } from "../../../support/archives.ts";

/** Returns archives that every builder refuses: what is wrong, the code of the refusal, and the archive. */
export async function badArchives(): Promise<[string, string, Buffer][]> {
  const file: ArchiveEntry = { name: "package.json", content: "{}" };
  const entries: [string, string, ArchiveEntry[]][] = [
    ["an absolute path", "archive_absolute_path", [{ name: "/etc/cron.d/evil", content: "x" }]],
    ["a path with ..", "archive_path_escapes", [{ name: "../evil", content: "x" }]],
    ["a path with .. in the middle", "archive_path_escapes", [{ name: "a/../../evil", content: "x" }]],
    [
      "a device",
      "archive_special_file",
      [{ name: "null", type: "character-device", devmajor: 1, devminor: 3 }],
    ],
    ["a block device", "archive_special_file", [{ name: "sda", type: "block-device", devmajor: 8 }]],
    ["a named pipe", "archive_special_file", [{ name: "pipe", type: "fifo" }]],
    [
      "a link to an absolute path",
      "archive_link_escapes",
      [{ name: "l", type: "symlink", linkname: "/etc/passwd" }],
    ],
    [
      "a link out of the archive",
      "archive_link_escapes",
      [{ name: "a/l", type: "symlink", linkname: "../../x" }],
    ],
    [
      "a link that leaves by way of another link",
      "archive_link_escapes",
      [
        { name: "b", type: "symlink", linkname: "." },
        { name: "l", type: "symlink", linkname: "b/../../x" },
      ],
    ],
    [
      "a file behind a link",
      "archive_through_link",
      [
        { name: "d/", type: "directory" },
        { name: "l", type: "symlink", linkname: "d" },
        { name: "l/evil", content: "x" },
      ],
    ],
    [
      "a folder in the place of a link",
      "archive_through_link",
      [
        { name: "l", type: "symlink", linkname: "d" },
        { name: "l/", type: "directory" },
      ],
    ],
    [
      "a hard link out of the archive",
      "archive_absolute_path",
      [{ name: "l", type: "link", linkname: "/etc/passwd" }],
    ],
    ["a hard link with ..", "archive_path_escapes", [{ name: "l", type: "link", linkname: "../passwd" }]],
    ["a hard link to nothing", "archive_link_escapes", [{ name: "l", type: "link", linkname: "missing" }]],
    [
      "a hard link to a link",
      "archive_link_escapes",
      [
        { name: "s", type: "symlink", linkname: "x" },
        { name: "l", type: "link", linkname: "s" },
      ],
    ],
    ["a file below a file", "archive_path_conflict", [file, { name: "package.json/x", content: "x" }]],
    ["a name that is too long", "archive_path_invalid", [{ name: `${"n".repeat(300)}`, content: "x" }]],
    ["nothing", "archive_empty", []],
    ["only its root", "archive_empty", [{ name: "./", type: "directory" }]],
  ];
  const whole = await archiveOf([
    file,
    { name: "noise", content: Buffer.from(Array.from({ length: 50_000 }, (_, n) => (n * n) % 251)) },
  ]);
  const tar = await tarOf([file, { name: "text", content: "some text ".repeat(1000) }]);
  const damaged = Buffer.from(tar);
  damaged.fill(7, 1024, 1100); // the second header
  return [
    ...(await Promise.all(
      entries.map(
        async ([what, code, list]) => [what, code, await archiveOf(list)] as [string, string, Buffer],
      ),
    )),
    ["bytes that are no gzip", "archive_not_gzip", Buffer.from("PK\x03\x04 this is a zip file")],
    ["a tarball without gzip", "archive_not_gzip", tar],
    ["gzip of something else", "archive_not_tar", gzipSync("hello, world")],
    ["gzip of a lot of something else", "archive_not_tar", gzipSync("hello, world ".repeat(1000))],
    ["a gzip cut short", "archive_truncated", whole.subarray(0, whole.length / 2)],
    [
      "a tarball cut short inside the gzip",
      "archive_truncated",
      gzipSync(tar.subarray(0, tar.length - 6000)),
    ],
    ["a damaged tarball", "archive_truncated", gzipSync(damaged)],
  ];
}
