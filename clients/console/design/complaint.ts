/** An error whose sentence is for the person: about what they gave, before the API was asked. */
export class Complaint extends Error {}
