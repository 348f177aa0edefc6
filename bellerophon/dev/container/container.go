package container

import (
	"context"
	"io"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"k8s.io/apimachinery/pkg/types"
)

// StateDirectory is where a pod keeps what has been synced and which commands run. It must be a volume that all
// containers of the pod mount.
const StateDirectory = "/opt/bellerophon"

// Place names one start of a container. After a restart the container has another ID, and the same volumes.
type Place struct {
	Namespace string
	Pod       string
	PodUID    types.UID
	Container string // the name in the pod
	ID        string // the container's ID in the status of the pod
	Project   string // the project's directory in the container, an absolute path; it must be a volume
}

// Command is a shell command of a devfile.
type Command struct {
	Slot      string            // what the command is for, such as "build" or "run"; a slot holds one command at a time
	Line      string            // for `sh -c`
	Directory string            // where it runs, an absolute path
	Env       map[string]string // in addition to the container's
	Mark      string            // Mark returns it for the slot after a success; "" means that nothing is marked
}

// Containers acts on the containers of pods. All functions may be called from any goroutine. Sync is called for one
// pod at a time.
type Containers interface {
	// Held returns the files that the project's directory in a container has from earlier syncs, also by other
	// processes. After an interrupted sync, the files that it may have touched have an empty Sum.
	Held(ctx context.Context, at Place) (worktree.Tree, error)

	// Sync applies a change to the project's directory, and notes that it holds the tree then. contents
	// returns an entry for each path of change.Send, in that order. If Sync is interrupted, Held says which
	// files it may have touched.
	Sync(ctx context.Context, at Place, change worktree.Change, contents []worktree.Content, then worktree.Tree) error

	// Mark returns the mark of the last command of a slot in this container's pod, or "" if it has not succeeded.
	Mark(ctx context.Context, at Place, slot string) (string, error)

	// Run runs a command until it has ended, and returns its exit code. An earlier command of the same slot is
	// killed first. When ctx ends, the command and its children are killed, and Run returns the context's error.
	// If the cause of the end is ErrReplaced, the next Run of the slot kills them.
	Run(ctx context.Context, at Place, command Command, output io.Writer) (exit int, err error)
}
