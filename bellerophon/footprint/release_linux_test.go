package footprint

import (
	"crypto/sha256"
	"os"
	"testing"

	"github.com/prometheus/procfs"
)

// filePages returns the resident pages of files, in bytes.
func filePages(t *testing.T) uint64 {
	t.Helper()
	self, err := procfs.Self()
	if err != nil {
		t.Fatal(err)
	}
	status, err := self.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return status.RssFile
}

func TestReleasedPagesAreNoLongerResidentAndTheProgramGoesOn(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	before := filePages(t)
	releasePages()
	if after := filePages(t); after >= before*9/10 {
		t.Errorf("%d bytes of files are resident after the release, %d before", after, before)
	}
	if again := sha256.Sum256(program); again != sum {
		t.Error("the same bytes have another hash after the release")
	}
}
