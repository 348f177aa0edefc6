package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// asset is a file of the page.
type asset struct {
	name, kind, tag string
	content         []byte
}

// kinds are the types of content. The table of the mime package differs between machines.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// load reads the files of the page, by their paths.
func load(from fs.FS) (map[string]*asset, error) {
	static := map[string]*asset{}
	err := fs.WalkDir(from, "files", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		kind := kinds[path.Ext(name)]
		if kind == "" {
			return fmt.Errorf("page: %s has no known type; allowed are .html, .css, .js and .svg", name)
		}
		sum := sha256.Sum256(content)
		static[strings.TrimPrefix(name, "files/")] = &asset{name: name, kind: kind, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, content: content}
		return nil
	})
	return static, err
}

// serve answers with the file, or with its tag alone if the browser has it.
func (a *asset) serve(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("ETag", a.tag)
	http.ServeContent(w, request, a.name, time.Time{}, bytes.NewReader(a.content))
}
