import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { ServiceAddress } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form } from "../../design/form.tsx";
import { sized } from "../../design/format.ts";
import { type Progress, ProgressLine, sayInterrupted, useSignal } from "../../design/transfer.tsx";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

type UploadDumpProps = {
  at: ServiceAddress;
  name: string;
  type: "postgres" | "redis";
  onUpload: () => void;
  onClose: () => void;
};

/** Makes a backup of an addon from a dump in a file. Closing the dialog ends what is under way. */
export function UploadDump({ at, name, type, onUpload, onClose }: UploadDumpProps) {
  const signalOf = useSignal();
  const [progress, setProgress] = useState<Progress>();
  const { uploadTitle, uploadHint, dump, dumps, upload: submit } = texts.backups;
  const send = useMutation({
    gcTime: 0,
    mutationFn: (file: File) => {
      const all = file.size;
      const onProgress = (done: number) =>
        setProgress({ sentence: texts.upload.uploading(sized(done), sized(all)), done, all });
      onProgress(0);
      return berth.backups.upload(at, file, { signal: signalOf(), onProgress }).catch(sayInterrupted);
    },
    onSettled: () => setProgress(undefined),
    onSuccess: () => {
      onUpload();
      onClose();
    },
  });
  return (
    <Dialog title={uploadTitle(name)} onClose={onClose}>
      <Form
        onSubmit={(fields) => send.mutate(fields.get("dump") as File)}
        error={send.error}
        isBusy={send.isPending}
        submit={submit}
      >
        <p>{uploadHint}</p>
        <Field label={dump} hint={dumps[type]}>
          {(id, hint) => (
            <input
              id={id}
              aria-describedby={hint}
              name="dump"
              type="file"
              required
              disabled={send.isPending}
              onChange={() => send.reset()}
            />
          )}
        </Field>
        {progress && <ProgressLine {...progress} />}
      </Form>
    </Dialog>
  );
}
