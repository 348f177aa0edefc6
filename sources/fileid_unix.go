//go:build unix

package sources

import (
	"io/fs"
	"syscall"
)

// fileID identifies a file under any name.
type fileID struct{ device, inode uint64 }

func idOf(info fs.FileInfo) fileID {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	return fileID{uint64(stat.Dev), uint64(stat.Ino)} //nolint:unconvert // Their types differ between systems.
}
