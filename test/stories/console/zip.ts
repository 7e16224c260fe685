import { crc32, deflateRawSync } from "node:zlib";

export type ZipEntry = { name: string; content?: string; mode?: number; encrypted?: boolean; size?: number };

/** Returns a ZIP archive of these entries, whether they are valid or not. */
export function zipOf(entries: ZipEntry[]): Buffer {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name, content = "", mode = 0o100644, encrypted = false, size } of entries) {
    const [path, plain] = [Buffer.from(name), Buffer.from(content)];
    const body = deflateRawSync(plain);
    const about = Buffer.alloc(26);
    about.writeUInt16LE(20, 0);
    about.writeUInt16LE(encrypted ? 1 : 0, 2);
    about.writeUInt16LE(8, 4);
    about.writeUInt32LE(crc32(plain), 10);
    about.writeUInt32LE(body.length, 14);
    about.writeUInt32LE(size ?? plain.length, 18);
    about.writeUInt16LE(path.length, 22);
    const file = Buffer.concat([Buffer.from("PK\x03\x04"), about, path, body]);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE((mode << 16) >>> 0, 6);
    rest.writeUInt32LE(at, 10);
    // By Unix, so that the mode counts.
    directory.push(Buffer.from("PK\x01\x02\x14\x03"), about, rest, path);
    files.push(file);
    at += file.length;
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(entries.length, 4);
  end.writeUInt16LE(entries.length, 6);
  end.writeUInt32LE(size, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...files, ...directory, Buffer.from("PK\x05\x06"), end]);
}
