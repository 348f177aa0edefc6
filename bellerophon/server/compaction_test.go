package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The enemy overwrites one large value. The store stays small, so the volume must too.
func TestTheVolumeStaysSmallWhileLargeValuesAreOverwritten(t *testing.T) {
	w := newWorld(t, 3, true)
	leader := w.formed()
	const most = 128 << 20
	value := strings.Repeat("x", 1<<20-100)
	for i := range 250 {
		w.must(leader, "PUT", "/v1/keys/large", value, 200)
		if i%50 != 49 {
			continue
		}
		for _, p := range w.members {
			size := int64(0)
			err := filepath.Walk(p.options.Dir, func(_ string, info os.FileInfo, err error) error {
				if err == nil && !info.IsDir() {
					size += info.Size()
				}
				return nil // Files come and go.
			})
			if err != nil || size > most {
				t.Errorf("after %d MiB, the volume of %s has %d MiB, %v", i+1, p.options.Name, size>>20, err)
			}
		}
	}
	w.must(leader, "PUT", "/v1/keys/small", "after", 200)
	for _, p := range w.members { // A member whose log begins after the snapshot still starts.
		w.kill(p)
	}
	for _, p := range w.members {
		w.start(p)
	}
	w.ready(w.members...)
	for _, p := range w.members {
		if got := w.must(p, "GET", "/v1/keys/large", "", 200); got.body != value {
			t.Errorf("%s has %d bytes", p.options.Name, len(got.body))
		}
		if got := w.must(p, "GET", "/v1/keys/small", "", 200); got.body != "after" {
			t.Errorf("%s has %q", p.options.Name, fmt.Sprint(got.body))
		}
	}
}
