// Package recording keeps what happened in a manager in files, so that it can happen again in a replay.
//
// A recording is a sequence of records: the objects that watches brought, the events that the cache applied, the
// attempts of reconcilers, and their requests with the answers. Each record has a position. The position counts
// the batches of events and the own writes that the cache showed, so it says what a reader could see.
//
// A [Writer] writes the records into a ring of files in a folder. The oldest file goes first. What it leaves behind is
// folded into a base file: the objects that existed when the next file began. [Open] reads such a folder, or
// a single file of [Recording.Save].
//
// The files have no values of Secrets. A value is replaced by a hash, so equal values stay equal in one recording. The key of the
// hash exists only in the memory of the writer. The other kinds are whole, so keep a recording as
// confidential as the cluster's objects.
//
// The files are gob streams, compressed by S2. Only the version of the program that wrote a recording is certain to read
// it; [Open] refuses the files of another format.
package recording
