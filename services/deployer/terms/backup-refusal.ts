/** An addon cannot be backed up or restored, and another attempt would not help. The message is a sentence for users. */
export class BackupRefusal extends Error {
  override name = "BackupRefusal";
}
