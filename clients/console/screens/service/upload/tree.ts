import { Complaint } from "../../../design/complaint.ts";
import { texts } from "../../../texts.ts";

/** What may be packed, wherever it is from: read only as far as it is asked for. */
export type TreeFile = {
  kind: "file";
  name: string;
  size: number;
  executable: boolean;
  open: () => Promise<ReadableStream<Uint8Array>>;
};
export type TreeLink = { kind: "link"; name: string; target: () => Promise<string> };
export type TreeFolder = { kind: "folder"; name: string; list: () => Promise<TreeNode[]> };
export type TreeNode = TreeFile | TreeLink | TreeFolder;

/** Returns the text of a file. Throws when it is longer than `most`, whatever its archive says. */
export async function textOf(open: TreeFile["open"], path: string, most: number): Promise<string> {
  const reader = (await open())
    .pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>)
    .getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    if (text.length <= most) continue;
    await reader.cancel();
    throw new Complaint(texts.upload.tooLong(path));
  }
}

// Browsers do not say which files are executable. As of other systems that do not, all are.
const ofFile = (file: File): TreeFile => ({
  kind: "file",
  name: file.name,
  size: file.size,
  executable: true,
  open: async () => file.stream(),
});

/** What a person dropped or chose: folders, and files of which one may be an archive. */
export type Given = (TreeFolder | File)[];

export const folderOf = (name: string, nodes: TreeNode[]): TreeFolder => ({
  kind: "folder",
  name,
  list: async () => nodes,
});

/** Returns a tree of nodes with their paths. Throws where a path is none that a folder has. */
export function treeOf(nodes: { path: string; node: TreeFile | TreeLink | undefined }[]): TreeFolder {
  type Branch = Map<string, Branch | TreeFile | TreeLink>;
  const root: Branch = new Map();
  for (const { path, node } of nodes) {
    const parts = path.replace(/\/$/, "").split("/");
    if (parts.some((part) => part === "" || part === "." || part === ".." || part.includes("\0")))
      throw new Complaint(texts.upload.badPath(path));
    const folders = node ? parts.slice(0, -1) : parts;
    let at = root;
    for (const part of folders) {
      const next = at.get(part) ?? new Map();
      if (!(next instanceof Map)) throw new Complaint(texts.upload.badPath(path));
      at.set(part, next);
      at = next;
    }
    if (node && at.get(node.name) instanceof Map) throw new Complaint(texts.upload.badPath(path));
    if (node) at.set(node.name, node);
  }
  const toFolder = (name: string, branch: Branch): TreeFolder =>
    folderOf(
      name,
      [...branch].map(([part, child]) => (child instanceof Map ? toFolder(part, child) : child)),
    );
  return toFolder("", root);
}

/** Returns the folder that was chosen in a dialog of the browser, which has read all of it. */
export function ofChosen(files: Iterable<File>): TreeFolder {
  const nodes = [...files].map((file) => ({ path: file.webkitRelativePath, node: ofFile(file) }));
  const folder = nodes[0]?.path.split("/")[0] ?? "";
  return {
    ...treeOf(nodes.map(({ path, node }) => ({ path: path.slice(folder.length + 1), node }))),
    name: folder,
  };
}

/** Takes what was dropped. To be called while the event is handled: afterwards there is nothing to take. */
export function ofDropped(transfer: DataTransfer): Given {
  return [...transfer.items].flatMap((item) => {
    if (item.kind !== "file") return [];
    const entry = item.webkitGetAsEntry();
    return entry?.isDirectory ? ofDirectory(entry as FileSystemDirectoryEntry) : (item.getAsFile() ?? []);
  });
}

const ofDirectory = (directory: FileSystemDirectoryEntry): TreeFolder => ({
  kind: "folder",
  name: directory.name,
  async list() {
    const reader = directory.createReader();
    const all: TreeNode[] = [];
    for (;;) {
      // A reader gives a part at a time, and an empty one at the end.
      const part = await new Promise<FileSystemEntry[]>((resolve, reject) =>
        reader.readEntries(resolve, reject),
      );
      if (part.length === 0) return all;
      all.push(...(await Promise.all(part.map(ofEntry))));
    }
  },
});

async function ofEntry(entry: FileSystemEntry): Promise<TreeNode> {
  if (entry.isDirectory) return ofDirectory(entry as FileSystemDirectoryEntry);
  return ofFile(
    await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)),
  );
}

/** Returns the one folder that several things were dropped as. */
export const together = (dropped: Given): TreeFolder => {
  const [first] = dropped;
  if (dropped.length === 1 && first && !(first instanceof File)) return first;
  return folderOf(
    "",
    dropped.map((one) => (one instanceof File ? ofFile(one) : one)),
  );
};
