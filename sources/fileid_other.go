//go:build !unix

package sources

import "io/fs"

// fileID tells files apart, whatever their names. Here nothing does, and a watch does not
// follow a directory that is moved.
type fileID struct{}

func idOf(fs.FileInfo) fileID { return fileID{} }
