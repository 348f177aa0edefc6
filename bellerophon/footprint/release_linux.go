package footprint

import (
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// releasePages removes the program file's pages from the memory of the process. It takes only mappings
// that are private to the process and cannot be written. A page that is read again therefore has the
// content of the file. An error leaves the pages where they are, which costs nothing but memory.
func releasePages() {
	self, err := procfs.Self()
	if err != nil {
		return
	}
	program, err := self.Executable()
	if err != nil {
		return
	}
	mappings, err := self.ProcMaps()
	if err != nil {
		return
	}
	for _, mapping := range mappings {
		// A program file that was replaced while it runs has the suffix " (deleted)" in both names.
		if mapping.Pathname != program || !mapping.Perms.Private || mapping.Perms.Write || mapping.EndAddr <= mapping.StartAddr {
			continue
		}
		// The mapping belongs to no Go object, so the garbage collector ignores the pointer.
		start := *(*unsafe.Pointer)(unsafe.Pointer(&mapping.StartAddr))
		_ = unix.Madvise(unsafe.Slice((*byte)(start), mapping.EndAddr-mapping.StartAddr), unix.MADV_DONTNEED)
	}
}

// resident returns the resident memory of the process, or 0 if the system does not report it.
func resident() (bytes uint64) {
	self, err := procfs.Self()
	if err != nil {
		return 0
	}
	stat, err := self.Stat()
	if err != nil {
		return 0
	}
	return uint64(stat.ResidentMemory())
}
