import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { ServiceAddress } from "../../../../typescript/src/index.ts";
import { Complaint } from "../../../design/complaint.ts";
import { Dialog } from "../../../design/dialog.tsx";
import { Alert, Field, Form } from "../../../design/form.tsx";
import { sized } from "../../../design/format.ts";
import { type Progress, ProgressLine, sayInterrupted, useSignal } from "../../../design/transfer.tsx";
import { berth } from "../../../session/api.ts";
import { texts } from "../../../texts.ts";
import { type Listing, listTree } from "./listing.ts";
import { pack } from "./pack.ts";
import { type Given, ofChosen, together } from "./tree.ts";
import { ofZip } from "./zip.ts";

const SERVICE = "/accounts/$accountId/projects/$projectId/environments/$environmentId/services/$service";

/** What is to be sent: a listing that is packed, or an archive as it is. */
type Chosen = { listing: Listing } | { archive: File };

/** Sends a folder or an archive, which is built and deployed. Closing the dialog ends what is under way. */
export function UploadDialog({
  at,
  given,
  onClose,
}: {
  at: ServiceAddress;
  given: Given | undefined;
  onClose: () => void;
}) {
  const { accountId } = at;
  const navigate = useNavigate();
  const [progress, setProgress] = useState<Progress>();
  const signalOf = useSignal();
  const account = useQuery({
    queryKey: ["limits", accountId],
    queryFn: () => berth.accounts.get({ accountId }),
  });
  const choose = useMutation({ gcTime: 0, mutationFn: (chosen: Given) => read(chosen, signalOf()) });
  const send = useMutation({
    gcTime: 0,
    mutationFn: async (chosen: Chosen) => {
      const signal = signalOf();
      const blob = "archive" in chosen ? chosen.archive : await packed(chosen.listing, signal, setProgress);
      const onProgress = (done: number) =>
        setProgress({
          sentence: texts.upload.uploading(sized(done), sized(blob.size)),
          done,
          all: blob.size,
        });
      const archiveRef = await berth.deployments
        .upload(at, blob, { signal, onProgress })
        .catch(sayInterrupted);
      return berth.deployments.deployFromArchive(at, { archiveRef }, { signal });
    },
    onSettled: () => setProgress(undefined),
    onSuccess: (accepted) =>
      "version" in accepted &&
      navigate({
        to: `${SERVICE}/deployments/$version`,
        params: { ...at, version: String(accepted.version) },
      }),
  });
  const take = useRef(choose.mutate);
  take.current = (chosen) => {
    if (send.isPending) return;
    send.reset();
    choose.mutate(chosen);
  };
  useEffect(() => {
    if (given) take.current(given);
  }, [given]);
  const limit = account.data?.limits?.uploadBytes;
  return (
    <Dialog title={texts.upload.title(at.service)} onClose={onClose} wide>
      <p>{texts.upload.hint}</p>
      {limit !== undefined && <p className="hint">{texts.upload.limits(sized(limit))}</p>}
      <p className="hint">{texts.upload.browser}</p>
      <Choose onChoose={(chosen) => take.current(chosen)} isBusy={send.isPending} />
      {choose.isPending && <p role="status">{texts.upload.reading}</p>}
      <Alert error={choose.error} />
      {choose.data && (
        <Form
          onSubmit={() => choose.data && send.mutate(choose.data)}
          error={send.error}
          isBusy={send.isPending}
          submit={texts.upload.submit}
        >
          {"listing" in choose.data ? (
            <Contents listing={choose.data.listing} />
          ) : (
            <p>{texts.upload.ready(choose.data.archive.name, sized(choose.data.archive.size))}</p>
          )}
          {progress && <ProgressLine {...progress} />}
          {send.data && "staged" in send.data && <p role="status">{texts.upload.staged}</p>}
        </Form>
      )}
    </Dialog>
  );
}

function Choose({ onChoose, isBusy }: { onChoose: (given: Given) => void; isBusy: boolean }) {
  const change = (files: FileList | null, isFolder: boolean) => {
    if (files && files.length > 0) onChoose(isFolder ? [ofChosen(files)] : [...files]);
  };
  return (
    <>
      <Field label={texts.upload.folder}>
        {(id) => (
          <input
            id={id}
            type="file"
            disabled={isBusy}
            {...{ webkitdirectory: "" }}
            onChange={({ target }) => change(target.files, true)}
          />
        )}
      </Field>
      <Field label={texts.upload.archive} hint={texts.upload.archiveHint}>
        {(id, hint) => (
          <input
            id={id}
            aria-describedby={hint}
            type="file"
            disabled={isBusy}
            accept=".zip,.tgz,.gz"
            onChange={({ target }) => change(target.files, false)}
          />
        )}
      </Field>
    </>
  );
}

const ZIP = /\.zip$/i;
const GZIP = /\.(?:tar\.gz|tgz)$/i;

/** Reads what was given: an archive, or all that is packed of a folder. Throws why it cannot be sent. */
async function read(given: Given, signal: AbortSignal): Promise<Chosen> {
  const [first] = given;
  if (given.length === 1 && first instanceof File) {
    if (ZIP.test(first.name)) return { listing: await listTree(await ofZip(first), signal) };
    if (GZIP.test(first.name)) {
      const [one, two] = new Uint8Array(await first.slice(0, 2).arrayBuffer());
      if (one !== 0x1f || two !== 0x8b) throw new Complaint(texts.upload.badGzip);
      return { archive: first };
    }
  }
  return { listing: await listTree(together(given), signal) };
}

function packed(listing: Listing, signal: AbortSignal, tell: (progress: Progress) => void): Promise<Blob> {
  const all = listing.bytes;
  const onProgress = (done: number) =>
    tell({ sentence: texts.upload.packing(sized(done), sized(all)), done, all });
  return pack(listing, { signal, onProgress });
}

/** As many paths are drawn. */
const MOST_PATHS = 500;
const MOST_LEFT_OUT = 20;
const SECRETS = /(?:^|\/)\.env(?:\.[^/]*)?$/;

function Contents({ listing: { entries, files, bytes, rules, leftOut } }: { listing: Listing }) {
  const listed = entries.filter((entry) => entry.kind !== "folder");
  return (
    <>
      <p role="status">
        {texts.upload.chosen(files, sized(bytes))}
        {rules && <span className="hint"> {texts.upload.rules(rules)}</span>}
      </p>
      {listed
        .filter(({ path }) => SECRETS.test(path))
        .map(({ path }) => (
          <p key={path} className="note">
            {texts.upload.secret(path)}
          </p>
        ))}
      {leftOut.length > 0 && (
        <p>
          {texts.upload.leftOut}: {leftOut.slice(0, MOST_LEFT_OUT).join(", ")}{" "}
          {leftOut.length > MOST_LEFT_OUT && texts.upload.andMore(leftOut.length - MOST_LEFT_OUT)}
        </p>
      )}
      <details>
        <summary>{texts.upload.list}</summary>
        <ul className="choices">
          {listed.slice(0, MOST_PATHS).map((entry) => (
            <li key={entry.path}>
              <code>{entry.path}</code>{" "}
              <span className="hint">{entry.kind === "file" ? sized(entry.size) : `→ ${entry.target}`}</span>
            </li>
          ))}
        </ul>
        {listed.length > MOST_PATHS && <p>{texts.upload.andMore(listed.length - MOST_PATHS)}</p>}
      </details>
    </>
  );
}
