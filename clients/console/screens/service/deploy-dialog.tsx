import { useMutation, useQuery } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import type { DryRun, ServiceAddress } from "../../../typescript/src/index.ts";
import { Dialog } from "../../design/dialog.tsx";
import { Field, Form } from "../../design/form.tsx";
import { Failure, Loading } from "../../design/state.tsx";
import { berth } from "../../session/api.ts";
import { texts } from "../../texts.ts";

/** Deploys the configured source, or an image; the API says first what that would change. */
export function DeployDialog({ at, onClose }: { at: ServiceAddress; onClose: () => void }) {
  const [image, setImage] = useState("");
  const [asked, setAsked] = useState("");
  const service = useQuery({
    queryKey: ["service", at.environmentId, at.service],
    queryFn: () => berth.services.get(at),
  });
  const body = (name: string) => (name === "" ? {} : { image: name });
  const preview = useQuery({
    queryKey: ["dry-run", at.environmentId, at.service, asked],
    queryFn: () => berth.deployments.deploy(at, { ...body(asked), dryRun: true }),
    staleTime: 0,
    gcTime: 0,
  });
  const deploy = useMutation({
    mutationFn: (name: string) => berth.deployments.deploy(at, body(name)),
    onSuccess: onClose,
  });
  const git = service.data?.source.git;
  return (
    <Dialog title={texts.service.deployTitle(at.service)} onClose={onClose}>
      <Form
        onSubmit={() => deploy.mutate(image.trim())}
        error={deploy.error}
        isBusy={deploy.isPending}
        submit={texts.service.deploy}
      >
        <Field
          label={`${texts.service.deployImage} (${texts.optional})`}
          hint={git ? `${texts.service.deployGit} ${git.branch}` : texts.service.deployImageHint}
        >
          {(id, hint) => (
            <input
              id={id}
              aria-describedby={hint}
              autoComplete="off"
              spellCheck={false}
              placeholder={service.data?.source.image}
              value={image}
              onChange={({ target }) => setImage(target.value)}
              onBlur={() => setAsked(image.trim())}
            />
          )}
        </Field>
        <Preview preview={preview} />
      </Form>
    </Dialog>
  );
}

/** Rolls back to a version, after saying what that changes. */
export function RollbackDialog({
  at,
  version,
  onClose,
}: {
  at: ServiceAddress;
  version: number;
  onClose: () => void;
}) {
  const preview = useQuery({
    queryKey: ["dry-run-rollback", at.environmentId, at.service, version],
    queryFn: () => berth.deployments.rollback(at, { version, dryRun: true }),
    staleTime: 0,
    gcTime: 0,
  });
  const rollback = useMutation({
    mutationFn: () => berth.deployments.rollback(at, { version }),
    onSuccess: onClose,
  });
  return (
    <Dialog title={texts.service.rollbackTitle(version)} onClose={onClose}>
      <Form
        onSubmit={() => rollback.mutate()}
        error={rollback.error}
        isBusy={rollback.isPending}
        submit={texts.service.rollback}
      >
        <p className="hint">{texts.service.rollbackHint}</p>
        <Preview preview={preview} />
      </Form>
    </Dialog>
  );
}

type PreviewProps = { preview: { data?: DryRun | undefined; error: unknown; isPending: boolean } };

function Preview({ preview: { data, error, isPending } }: PreviewProps) {
  if (isPending) return <Loading />;
  if (!data) return <Failure error={error} />;
  const { refusal, diff, dangling, warnings } = data;
  const { image, config, variables } = diff;
  const lists: [string, string[]][] = [
    [texts.service.configChange, config],
    [texts.service.added, variables.added],
    [texts.service.changed, variables.changed],
    [texts.service.removed, variables.removed],
    [
      texts.service.dangling,
      dangling.map(({ name, reason }) => `${name}: ${texts.variables.reasons[reason]}`),
    ],
    [texts.service.warnings, warnings.map(({ message }) => message)],
  ];
  const shown = lists.filter(([, items]) => items.length > 0);
  return (
    <div className="preview" aria-live="polite">
      {refusal && (
        <p className="note">
          {texts.service.refused} {refusal.message}
        </p>
      )}
      <dl>
        {image.changed && (
          <Row title={texts.service.imageChange}>
            <code>{image.from ?? texts.environment.none}</code> → <code>{image.to}</code>
          </Row>
        )}
        {shown.map(([title, items]) => (
          <Row key={title} title={title}>
            <ul>
              {items.map((item) => (
                <li key={item}>{item}</li>
              ))}
            </ul>
          </Row>
        ))}
      </dl>
      {!image.changed && shown.length === 0 && !refusal && (
        <p className="hint">{texts.service.nothingChanges}</p>
      )}
    </div>
  );
}

function Row({ title, children }: { title: string; children: ReactNode }) {
  return (
    <>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </>
  );
}
