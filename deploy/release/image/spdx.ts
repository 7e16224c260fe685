import type { Component } from "../../images/components.ts";

type Described = {
  name: string;
  version: string;
  arch: string;
  digest: string;
  created: Date;
  components: Component[];
};

/** A licence that npm's record has as an SPDX expression; others are words such as SEE LICENSE IN a file. */
const EXPRESSION = /^\(?[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*\)?$/;

/** Returns the bill of materials of an image as SPDX 2.3. Its address contains the image's digest, and is no web page. */
export function spdx({ name, version, arch, digest, created, components }: Described): string {
  const unique = [...new Map(components.map((one) => [one.purl, one])).values()];
  const image = "SPDXRef-Image";
  const idOf = (at: number) => `SPDXRef-Package-${at + 1}`;
  const document = {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `${name}-${version}-linux-${arch}`,
    documentNamespace: `https://berth.dev/spdx/${name}/${version}/linux-${arch}/${digest.replace(":", "-")}`,
    creationInfo: {
      created: created.toISOString().replace(/\.\d+Z$/, "Z"),
      creators: ["Organization: Berth"],
    },
    packages: [
      {
        ...unknown,
        SPDXID: image,
        name,
        versionInfo: version,
        licenseDeclared: "Apache-2.0",
        primaryPackagePurpose: "CONTAINER",
        checksums: [{ algorithm: "SHA256", checksumValue: digest.slice("sha256:".length) }],
      },
      ...unique.map((component, at) => ({ ...unknown, SPDXID: idOf(at), ...packageOf(component) })),
    ],
    relationships: [
      { spdxElementId: "SPDXRef-DOCUMENT", relationshipType: "DESCRIBES", relatedSpdxElement: image },
      ...unique.map((_, at) => ({
        spdxElementId: image,
        relationshipType: "CONTAINS",
        relatedSpdxElement: idOf(at),
      })),
    ],
  };
  return `${JSON.stringify(document, null, 1)}\n`;
}

const unknown = {
  downloadLocation: "NOASSERTION",
  filesAnalyzed: false,
  licenseConcluded: "NOASSERTION",
  licenseDeclared: "NOASSERTION",
  copyrightText: "NOASSERTION",
};

function packageOf({ name, version, purl, licenses, hashes }: Component) {
  const license = licenses?.[0]?.license.name;
  return {
    name,
    versionInfo: version,
    ...(license && license !== "UNLICENSED" && EXPRESSION.test(license) && { licenseDeclared: license }),
    ...(hashes && {
      checksums: hashes.map(({ content }) => ({ algorithm: "SHA512", checksumValue: content })),
    }),
    externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purl }],
  };
}
