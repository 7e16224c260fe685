import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";

/** Leading comments of the protos, by the full name of a service, method, message or member. */
export type Comments = Map<string, string>;

// Field numbers of the descriptors, of which the path of a location is made.
const MESSAGE = 4;
const SERVICE = 6;
const METHOD = 2;
const NESTED = 3;
const MEMBER = 2;

/** Reads the comments of all protos of a folder with buf: generated code does not contain them. */
export function readComments(dir: string): Comments {
  const buf = join(import.meta.dirname, "../../../node_modules/.bin/buf");
  const image = execFileSync(buf, ["build", dir, "-o", "-#format=binpb"], { maxBuffer: 64 * 1024 * 1024 });
  const comments: Comments = new Map();
  for (const file of fromBinary(FileDescriptorSetSchema, image).file)
    for (const { path, leadingComments } of file.sourceCodeInfo?.location ?? []) {
      const name = leadingComments && nameAt(file, path);
      if (name) comments.set(name, plain(leadingComments));
    }
  return comments;
}

type Node = { name: string; nestedType?: Node[]; field?: Node[]; method?: Node[] };

function nameAt(file: FileDescriptorProto, path: readonly number[]): string | undefined {
  const [kind, index, ...rest] = path;
  const top = kind === MESSAGE ? file.messageType : kind === SERVICE ? file.service : [];
  let node: Node | undefined = top[index ?? -1];
  if (!node) return undefined;
  const names = [file.package, node.name];
  for (let i = 0; i + 1 < rest.length && node; i += 2) {
    const [member, at]: [number, number] = [rest[i]!, rest[i + 1]!];
    if (kind === SERVICE) node = member === METHOD ? node.method?.[at] : undefined;
    else node = member === NESTED ? node.nestedType?.[at] : member === MEMBER ? node.field?.[at] : undefined;
    names.push(node?.name ?? "");
  }
  return node && rest.length % 2 === 0 ? names.join(".") : undefined;
}

/** Returns a comment for readers of the API: its paragraphs without line breaks, without references to docs/. */
function plain(comment: string): string {
  return comment
    .replaceAll(/`[a-z]+(?:_[a-z]+)+`/g, (name) =>
      name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    )
    .split(/\n\s*\n/)
    .map((paragraph) =>
      paragraph
        .replaceAll(/\s+/g, " ")
        .replaceAll(/ ?\(docs\/[a-z]+\.md[^()]*\)/g, "")
        .trim(),
    )
    .filter((paragraph) => paragraph !== "")
    .join("\n\n");
}
