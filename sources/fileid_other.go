//go:build !unix

package sources

import "io/fs"

// fileID identifies a file under any name. On this platform no file has an identity, and a watch
// does not follow a directory that is moved.
type fileID struct{}

func idOf(fs.FileInfo) fileID { return fileID{} }
