/** Returns the section of a version in a changelog, or what is not released yet when it has none. */
export function notesOf(changelog: string, version: string): string {
  const sections = changelog.split(/^## /m).slice(1);
  const headed = (name: string) => sections.find((section) => section.startsWith(`[${name}]`));
  const section = headed(version) ?? headed("Unreleased");
  const text = section?.slice(section.indexOf("\n")).trim();
  if (!text) throw new Error(`CHANGELOG.md says nothing about ${version}.`);
  return `# Berth ${version}\n\n${text}\n`;
}
