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

// source is that of the suite: whichever command it is built into, it is the same.
//
//go:embed *.go children.yaml
var source embed.FS

// Version is a hash of the suite's own source, without its tests: suites of one version
// check the same.
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
		panic(err) // What is embedded can be read.
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
