package harness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"k8s.io/client-go/rest"
)

func TestTheRecordOfEachProcessIsAFileOfItsOwn(t *testing.T) {
	server := &rest.Config{Host: "https://127.0.0.1:1"}
	first, err := proxy.New(server, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := newMembers(first, server, "token")
	for want := 1; want <= 2; want++ {
		if _, number, err := m.open(&scenario.Chosen{}); err != nil || number != want {
			t.Fatalf("the process has number %d: %v, want %d", number, err, want)
		}
	}
	dir := t.TempDir()
	if err := m.write(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"proxy-1.jsonl": true, "proxy-2.jsonl": true, "proxy-0.jsonl": false, "proxy-3.jsonl": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s exists: %v, want %v", name, err == nil, want)
		}
	}
	for _, one := range m.all() {
		if err := one.Close(); err != nil {
			t.Error(err)
		}
	}
}
