package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// File is a file of a project.
type File struct {
	Path    string // slash-separated
	Content []byte
}

// Files returns the files of the project, by path.
func (p Project) Files() ([]File, error) {
	root, err := fs.Sub(templates, "templates")
	if err != nil {
		return nil, err
	}
	var files []File
	err = fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file := File{Path: p.targetOf(name)}
		if file.Content, err = p.render(root, name); err != nil {
			return fmt.Errorf("make %s: %w", file.Path, err)
		}
		files = append(files, file)
		return nil
	})
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, err
}

// render fills a template in. The delimiters are [[ and ]], because Helm's are in the templates of the chart.
func (p Project) render(root fs.FS, name string) ([]byte, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New(name).Delims("[[", "]]").Funcs(template.FuncMap{"quoted": quoted}).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var made bytes.Buffer
	if err := parsed.Execute(&made, p); err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".go.tmpl") {
		return format.Source(made.Bytes()) // The order of imports depends on the path of the module.
	}
	return made.Bytes(), nil
}

// quoted quotes a path for a go.mod if it must be.
func quoted(path string) string {
	if strings.ContainsAny(path, " \"'`\t\n\\(),") || strings.Contains(path, "//") {
		return strconv.Quote(path)
	}
	return path
}

// WriteTo writes the project into a folder, which it creates if it does not exist. It returns the files that it wrote.
// If a file or folder of the project's first level exists, or if a write fails, it leaves the folder as it was.
func (p Project) WriteTo(folder string) ([]File, error) {
	files, err := p.Files()
	if err != nil {
		return nil, err
	}
	var names []string // of the first level
	for _, file := range files {
		if name, _, _ := strings.Cut(file.Path, "/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if err := checkFolder(folder, names); err != nil {
		return nil, err
	}
	created, err := create(folder)
	if err != nil {
		return nil, fmt.Errorf("create the folder of the project: %w", err)
	}
	if err := place(folder, names, files, os.Rename); err != nil {
		return nil, errors.Join(fmt.Errorf("write the project (nothing is left of it): %w", err), removeAll(created))
	}
	return files, nil
}

// checkFolder returns an error if a name of the project is taken.
func checkFolder(folder string, names []string) error {
	var taken []string
	for _, name := range names {
		switch _, err := os.Lstat(filepath.Join(folder, name)); {
		case err == nil:
			taken = append(taken, name)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("look for files that are in the way: %w", err)
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s has %s, which the project needs, so nothing was written; move them away, or give another folder with --dir",
			folder, strings.Join(taken, ", "))
	}
	return nil
}

// create creates a folder, and returns the outermost one that did not exist, or "".
func create(folder string) (outermost string, err error) {
	for at := filepath.Clean(folder); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		outermost = at
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", errors.Join(err, removeAll(outermost))
	}
	return outermost, nil
}

func removeAll(folder string) error {
	if folder == "" {
		return nil
	}
	return os.RemoveAll(folder)
}

// place writes all files next to their place first, where a full disk shows, and then moves them. If a move fails, it
// takes the others back.
func place(folder string, names []string, files []File, rename func(from, to string) error) (err error) {
	staging, err := os.MkdirTemp(folder, ".bellerophon-new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(staging)) }()
	for _, file := range files {
		target := filepath.Join(staging, filepath.FromSlash(file.Path))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, file.Content, 0o644); err != nil {
			return err
		}
	}
	for at, name := range names {
		if err := rename(filepath.Join(staging, name), filepath.Join(folder, name)); err != nil {
			for _, placed := range names[:at] {
				err = errors.Join(err, os.RemoveAll(filepath.Join(folder, placed)))
			}
			return err
		}
	}
	return nil
}
