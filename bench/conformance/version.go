package conformance

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

// source holds the source of the suite. It is embedded, so that it is the same in every command
// that contains the suite.
//
//go:embed *.go children.yaml
var source embed.FS

// Version returns a hash of the suite's own source, without its tests. Suites of one version
// check the same behaviour.
func Version() string { return ownVersion() }

var ownVersion = sync.OnceValue(func() string { return versionOf(source) })

func versionOf(source fs.FS) string {
	sum := sha256.New()
	err := fs.WalkDir(source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := fs.ReadFile(source, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		panic(err) // Embedded files are always readable.
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
