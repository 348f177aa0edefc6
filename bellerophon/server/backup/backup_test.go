package backup

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/store"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a member that sends a snapshot, cut after some bytes, and takes any.
type fake struct {
	cut      int // 0 sends all
	isEmpty  bool
	restored int
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPut && !f.isEmpty && r.Header.Get("If-None-Match") == "*":
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		if _, err := store.Read(r.Body); err == nil {
			f.restored++
		}
		_, _ = w.Write([]byte(`{}`))
	default:
		var content strings.Builder
		if _, err := store.New().Snapshot().Write(&content); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(content.String()[:content.Len()-f.cut]))
	}
}

func start(t *testing.T, f *fake) (*client.Client, string, Folder) {
	t.Helper()
	server := httptest.NewServer(f)
	over := client.New(nil, time.Second)
	t.Cleanup(func() {
		over.Close()
		server.Close()
	})
	return over, server.Listener.Addr().String(), Folder{Dir: t.TempDir(), Name: "example"}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestTheNewestBackupsStay(t *testing.T) {
	over, host, folder := start(t, &fake{})
	other := filepath.Join(folder.Dir, "example-two-20200101T000000Z.snapshot")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := folder.Take(t.Context(), over, host, 3, noon.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := folder.All()
	if err != nil || len(files) != 3 || !strings.HasSuffix(files[0], "example-20260102T140000Z.snapshot") {
		t.Errorf("%q, %v", files, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("the backup of another cluster: %v", err)
	}
	if entries, err := os.ReadDir(folder.Dir); err != nil || len(entries) != 4 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestFilesOfKilledBackupsGoAndOthersStay(t *testing.T) {
	over, host, folder := start(t, &fake{})
	for name, written := range map[string]time.Time{
		".example-11.partial":     noon.Add(-2 * time.Hour),
		".example-12.partial":     noon.Add(-time.Minute), // of a process that lives
		".example-two-13.partial": noon.Add(-2 * time.Hour),
	} {
		path := filepath.Join(folder.Dir, name)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, written, written)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := folder.Take(t.Context(), over, host, 3, noon); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder.Dir)
	if err != nil || len(entries) != 3 || entries[0].Name() != ".example-12.partial" {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestABackupThatIsCutOffRemovesNothing(t *testing.T) {
	member := &fake{}
	over, host, folder := start(t, member)
	whole, err := folder.Take(t.Context(), over, host, 1, noon)
	if err != nil {
		t.Fatal(err)
	}
	member.cut = 3
	if _, err := folder.Take(t.Context(), over, host, 1, noon.Add(time.Hour)); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("a backup that is cut off: %v", err)
	}
	entries, err := os.ReadDir(folder.Dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(whole) {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestARestoreReplacesNoKeys(t *testing.T) {
	member := &fake{}
	over, host, folder := start(t, member)
	if _, err := folder.Restore(t.Context(), over, host, ""); !errors.Is(err, ErrNone) {
		t.Errorf("without a backup: %v", err)
	}
	file, err := folder.Take(t.Context(), over, host, 1, noon)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Restore(t.Context(), over, host, ""); !errors.Is(err, client.ErrNotEmpty) || member.restored != 0 {
		t.Errorf("into a cluster with keys: %v, %d restored", err, member.restored)
	}
	member.isEmpty = true
	for _, given := range []string{"", filepath.Base(file), file} {
		if restored, err := folder.Restore(t.Context(), over, host, given); err != nil || restored != file {
			t.Errorf("%q: %s, %v", given, restored, err)
		}
	}
	if member.restored != 3 {
		t.Errorf("%d restored", member.restored)
	}
	if _, err := folder.Restore(t.Context(), over, host, "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
