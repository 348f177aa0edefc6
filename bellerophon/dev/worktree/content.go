package worktree

// Content is a file with what it holds, as it was read at one moment.
type Content struct {
	Path string
	File File
	Data []byte // nil for a symbolic link
}
