package localcluster

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestDirectoriesOfRunningClustersStayAndOthersAreSwept(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "clusters")
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	running, err := newDirectory(t.Context(), parent, logger)
	if err != nil {
		t.Fatal(err)
	}
	abandoned := filepath.Join(parent, "cluster-abandoned")
	write(t, filepath.Join(abandoned, "etcd", "data"), "data", 0o600)
	write(t, filepath.Join(abandoned, "owner.lock"), "", 0o600)

	second, err := newDirectory(t.Context(), parent, logger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(running.path); err != nil {
		t.Errorf("the directory of a running cluster was swept: %v", err)
	}
	if _, err := os.Stat(abandoned); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the abandoned directory is still there: %v", err)
	}
	for _, d := range []*directory{running, second} {
		if err := d.remove(); err != nil {
			t.Errorf("remove() = %v", err)
		}
		if _, err := os.Stat(d.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", d.path, err)
		}
	}
}

func TestFreePortsDifferAndAFixedOneIsKeptOrRefused(t *testing.T) {
	free, err := freePorts(0)
	if err != nil {
		t.Fatal(err)
	}
	if free.api == free.etcd || free.api == free.etcdPeer || free.etcd == free.etcdPeer || free.api == 0 {
		t.Errorf("freePorts() = %+v, want three different ports", free)
	}
	if fixed, err := freePorts(free.api); err != nil || fixed.api != free.api {
		t.Errorf("freePorts(%d) = %+v, %v, want that port", free.api, fixed, err)
	}
	listener, err := net.Listen("tcp", address(free.api))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, err = freePorts(free.api)
	if err == nil || !strings.Contains(err.Error(), "port "+strconv.Itoa(free.api)) || !strings.Contains(err.Error(), "choose another port") {
		t.Errorf("for a port that is taken: %v, want an error that names it and a way out", err)
	}
}

func TestOptionsAreValidated(t *testing.T) {
	for _, port := range []int{-1, 65536} {
		_, err := Start(t.Context(), Options{APIPort: port})
		if err == nil || !strings.Contains(err.Error(), "APIPort") || !strings.Contains(err.Error(), "1 to 65535") {
			t.Errorf("with APIPort %d: %v, want an error that names the option and its range", port, err)
		}
	}
}
