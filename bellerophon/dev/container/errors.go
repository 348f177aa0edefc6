package container

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The errors of Containers. They come wrapped in an error that names the container and the way out.
var (
	// ErrReplaced is the cause of a context whose command ends because another one takes its slot.
	ErrReplaced = errors.New("another command takes the slot")

	// ErrGone says that the container does not run any more. The caller waits for the next one.
	ErrGone = errors.New("the container does not run any more")

	// ErrConnection says that the connection to the container broke. It is unknown what has happened in the container.
	ErrConnection = errors.New("the connection broke")

	// ErrNoShell says that the image of the container has no shell.
	ErrNoShell = errors.New("the image has no sh")

	// ErrNoTar says that the image of the container has no tar.
	ErrNoTar = errors.New("the image has no tar")

	// ErrDiskFull says that a volume of the container is full.
	ErrDiskFull = errors.New("no space left in the container")

	// ErrName says that a file cannot be synced because of its name.
	ErrName = errors.New("the name cannot be synced")

	errStale = errors.New("the files have changed since they were listed; list them again")
)

// The exit codes of the scripts.
const (
	exitNoTar      = 91
	exitIncomplete = 92 // stdin ended early
	exitWrite      = 93 // a file of the state directory could not be written
	exitStale      = 95
	exitRun        = 97 // run.sh failed, and not the command

	exitNotExecutable = 126 // of the container runtime
	exitNotFound      = 127 // of the container runtime
)

// failure returns the error of a script that has ended with an exit code other than 0.
func failure(at Place, exit int, stderr string) error {
	stderr = strings.TrimSpace(stderr)
	switch {
	case exit == exitNoTar:
		return fmt.Errorf("sync files to %s: %w; use an image with sh and tar, such as one that is based on Debian or Alpine", at, ErrNoTar)
	case exit == exitNotFound, exit == exitNotExecutable:
		return noShell(at)
	case exit == exitIncomplete:
		return fmt.Errorf("send a script to %s: %w; nothing was done", at, ErrConnection)
	case exit == exitStale:
		return fmt.Errorf("sync files to %s: %w", at, errStale)
	case strings.Contains(stderr, "Read-only file system"):
		return fmt.Errorf("write in %s: the file system is read-only; mount volumes for %s and the project: %s", at, StateDirectory, stderr)
	case strings.Contains(stderr, "Permission denied"), strings.Contains(stderr, "Operation not permitted"):
		return fmt.Errorf("write in %s: the user of the container may not; set runAsUser or fsGroup, or use an image with another user: %s", at, stderr)
	case exit == exitWrite, strings.Contains(stderr, "No space left on device"), strings.Contains(stderr, "Disk quota exceeded"):
		return fmt.Errorf("write in %s: %w; remove files there, or give its volumes more space: %s", at, ErrDiskFull, stderr)
	}
	return fmt.Errorf("run a script in %s: exit code %d: %s", at, exit, stderr)
}

func noShell(at Place) error {
	return fmt.Errorf("run sh in %s: %w; use an image with sh and tar, such as one that is based on Debian or Alpine", at, ErrNoShell)
}

// goneMessages are parts of the messages of API servers, kubelets and container runtimes for a container that does not
// run. They have no error codes.
var goneMessages = []string{
	"container not found", "pod does not exist", "does not have a host assigned", "completed pod",
	"not running", "not created or running", "stopped container", "stopped state", "no running task", "task not found",
	"process already finished", "cannot exec in a deleted", "is not valid for pod",
}

// explain returns the error of an executor with its kind.
func explain(ctx context.Context, at Place, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	message := strings.ToLower(err.Error())
	var status apierrors.APIStatus
	hasStatus := errors.As(err, &status)
	if hasStatus && status.Status().Code == http.StatusNotFound ||
		strings.Contains(message, "pods ") && strings.Contains(message, " not found") {
		return fmt.Errorf("connect to %s: %w: %w", at, ErrGone, err)
	}
	for _, gone := range goneMessages {
		if strings.Contains(message, gone) {
			return fmt.Errorf("connect to %s: %w: %w", at, ErrGone, err)
		}
	}
	switch {
	case strings.Contains(message, "executable file not found"),
		strings.Contains(message, `"sh"`) && strings.Contains(message, "no such file or directory"):
		return noShell(at)
	case hasStatus && (status.Status().Code == http.StatusForbidden || status.Status().Code == http.StatusUnauthorized),
		strings.Contains(message, "forbidden"):
		return fmt.Errorf("connect to %s: allow get and create for pods/exec in the namespace: %w", at, err)
	}
	return fmt.Errorf("connect to %s: %w: %w", at, ErrConnection, err)
}
