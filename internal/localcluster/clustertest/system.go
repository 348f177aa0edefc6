package clustertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

var (
	// systemPrograms are in the images of LoadSystem and LoadGo.
	systemPrograms = []string{"cat", "find", "head", "ls", "mkdir", "mv", "rm", "rmdir", "sh", "sha256sum", "sleep", "tail", "tar", "wc"}
	// systemOptional are in these images if this machine has them. The shell has a kill of its own.
	systemOptional = []string{"kill", "ps"}
)

// stay is the entry point of the images of LoadSystem and LoadGo. It runs until SIGTERM. Without a trap, the
// kernel would keep SIGTERM from the first process of a container, and each Pod would take its grace period to end.
const stay = `trap "exit 0" TERM; sleep infinity & wait`

// LoadSystem loads an image of the given name into the real node of a cluster. It makes the image from
// programs of this machine: a shell, tar and the like, and the extra ones. All are in /bin, with their
// shared libraries. The image also has /tmp, the users root and user (1000), and an entry point that
// waits for SIGTERM. A cluster gets an image once: further calls with the same arguments return at once.
func LoadSystem(t testing.TB, cluster *localcluster.Cluster, name string, extra ...string) {
	t.Helper()
	key := fmt.Sprintf("%s of %q", name, extra)
	loadOnce(t, cluster, key, func(archive string) error {
		image, err := systemImage(name, extra)
		if err != nil {
			return err
		}
		return localcluster.WriteImage(archive, image)
	})
}

// loaded has the images of each cluster of this process.
var loaded struct {
	sync.Mutex
	images map[*localcluster.Cluster]map[string]bool
}

// loadOnce makes an archive and loads it into a cluster, unless the cluster has the image with this key.
func loadOnce(t testing.TB, cluster *localcluster.Cluster, key string, write func(archive string) error) {
	t.Helper()
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.images[cluster][key] {
		return
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := write(archive); err != nil {
		t.Fatal(err)
	}
	if err := cluster.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	if loaded.images == nil {
		loaded.images = map[*localcluster.Cluster]map[string]bool{}
	}
	if loaded.images[cluster] == nil {
		loaded.images[cluster] = map[string]bool{}
	}
	loaded.images[cluster][key] = true
}

// systemImage returns the image of LoadSystem.
func systemImage(name string, extra []string) (localcluster.Image, error) {
	image := localcluster.Image{
		Name:       name,
		Entrypoint: []string{"/bin/sh", "-c", stay},
		Env:        []string{"PATH=/bin"},
		Files: []localcluster.ImageFile{
			{Path: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
			{Path: "root", Mode: fs.ModeDir | 0o700},
			{Path: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/tmp:/bin/sh\n")},
			{Path: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nuser:x:1000:\n")},
		},
	}
	libraries := map[string]bool{}
	for _, program := range slices.Concat(systemPrograms, systemOptional, extra) {
		source, err := exec.LookPath(program)
		if errors.Is(err, exec.ErrNotFound) && slices.Contains(systemOptional, program) {
			continue
		}
		if err != nil {
			return image, fmt.Errorf("find the program %s: %w", program, err)
		}
		image.Files = append(image.Files, localcluster.ImageFile{Path: "bin/" + program, Mode: 0o755, Source: source})
		needed, err := librariesOf(source)
		if err != nil {
			return image, err
		}
		for _, library := range needed {
			if !libraries[library] {
				libraries[library] = true
				image.Files = append(image.Files, localcluster.ImageFile{Path: strings.TrimPrefix(library, "/"), Mode: 0o755, Source: library})
			}
		}
	}
	return image, nil
}

// libraryPath matches the paths in the output of ldd: of libraries, and of the loader.
var libraryPath = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// librariesOf returns the paths of the shared libraries of a program and of its loader. A static program has none.
func librariesOf(program string) ([]string, error) {
	said, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil && !strings.Contains(string(said), "not a dynamic executable") {
		return nil, fmt.Errorf("list the libraries of %s: ldd: %w: %s", program, err, said)
	}
	if strings.Contains(string(said), "not found") {
		return nil, fmt.Errorf("list the libraries of %s: one is missing: %s", program, said)
	}
	var libraries []string
	for _, match := range libraryPath.FindAllStringSubmatch(string(said), -1) {
		libraries = append(libraries, match[1])
	}
	return libraries, nil
}
