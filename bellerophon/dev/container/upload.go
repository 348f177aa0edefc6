package container

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
)

// upload is the stdin of sync.sh: lines, and a tar stream with the contents and the new manifest. It makes the stream
// while it is read, so that no goroutine is needed.
type upload struct {
	project  string
	contents []worktree.Content // to come
	manifest []byte
	isEnded  bool

	buffer  bytes.Buffer // made and not read yet
	archive *tar.Writer
}

func newUpload(project string, header []byte, contents []worktree.Content, then worktree.Tree) *upload {
	made := &upload{project: project, contents: contents, manifest: append(then.Encode(), '\n')}
	made.buffer.Write(header)
	made.archive = tar.NewWriter(&made.buffer)
	return made
}

// Read reads the next bytes of the stream.
func (u *upload) Read(p []byte) (int, error) {
	for u.buffer.Len() == 0 && !u.isEnded {
		if err := u.extend(); err != nil {
			return 0, err
		}
	}
	if u.buffer.Len() == 0 {
		return 0, io.EOF
	}
	return u.buffer.Read(p)
}

// extend puts the next part of the archive into the buffer.
func (u *upload) extend() error {
	if len(u.contents) > 0 {
		content := u.contents[0]
		u.contents = u.contents[1:]
		return u.add(content)
	}
	u.isEnded = true
	// tar takes an end between two entries for the end of the archive. The file complete proves that nothing is missing.
	for _, file := range []worktree.Content{
		{Path: path.Join(StateDirectory, "manifest.new"), Data: u.manifest},
		{Path: path.Join(StateDirectory, "complete")},
	} {
		if err := u.write(tar.Header{Typeflag: tar.TypeReg, Name: file.Path, Mode: 0o644}, file.Data); err != nil {
			return err
		}
	}
	return u.archive.Close()
}

// add writes a file of the project.
func (u *upload) add(content worktree.Content) error {
	entry := tar.Header{
		Typeflag: tar.TypeReg,
		Name:     path.Join(u.project, content.Path),
		Mode:     int64(content.File.Mode.Perm()),
	}
	if content.File.IsLink() {
		entry.Typeflag, entry.Linkname = tar.TypeSymlink, content.File.Link
		return u.write(entry, nil)
	}
	return u.write(entry, content.Data)
}

// write writes an entry. GNU's format has names of any length and any bytes, and both GNU's tar and busybox read it.
func (u *upload) write(entry tar.Header, data []byte) error {
	entry.Name = strings.TrimPrefix(entry.Name, "/")
	entry.Format, entry.Size = tar.FormatGNU, int64(len(data))
	if err := u.archive.WriteHeader(&entry); err != nil {
		return fmt.Errorf("send %s: %w", entry.Name, err)
	}
	if _, err := u.archive.Write(data); err != nil {
		return fmt.Errorf("send %s: %w", entry.Name, err)
	}
	return u.archive.Flush()
}
