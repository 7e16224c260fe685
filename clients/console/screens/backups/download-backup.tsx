import { useMutation } from "@tanstack/react-query";
import { saveFrom } from "../../design/download.ts";
import { Alert } from "../../design/form.tsx";
import { texts } from "../../texts.ts";

/** A button that saves a backup as a file. `sign` asks for a URL, which is valid for minutes and a secret. */
export function DownloadBackup({ id, sign }: { id: string; sign: () => Promise<{ url: string }> }) {
  const save = useMutation({ gcTime: 0, mutationFn: async () => saveFrom((await sign()).url) });
  return (
    <>
      <button
        type="button"
        className="quiet"
        aria-disabled={save.isPending}
        onClick={() => save.isPending || save.mutate()}
      >
        {texts.backups.download}
        <span className="unseen"> {id}</span>
      </button>{" "}
      <Alert error={save.error} />
    </>
  );
}
