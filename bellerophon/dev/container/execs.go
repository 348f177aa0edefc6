package container

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// executor runs programs in containers. It returns an error unless the program has ended. After a lost connection, it
// may return 0 without an error, so each script ends its output with a line that proves its success.
type executor interface {
	exec(ctx context.Context, at Place, argv []string, stdin io.Reader, stdout, stderr io.Writer) (exit int, err error)
}

// Execs implements Containers by shell scripts that run with pods/exec. The image of the container needs a POSIX
// shell named sh, and the programs tar, cat, mkdir, mv, rm, rmdir and sleep.
type Execs struct {
	executor executor
	root     string // goes before all paths in the container

	mu    sync.Mutex
	known map[copyKey]version
}

// copyKey identifies one copy of the project's files. The containers of a pod share it.
type copyKey struct {
	namespace, pod string
	uid            types.UID
	project        string
}

// version is the state of a copy that the caller of Sync has seen.
type version struct {
	epoch     string // the last sync that changed the copy; "" if there was none
	isDamaged bool   // the list of files could not be read
}

var _ Containers = (*Execs)(nil)

// New creates an Execs. It makes connections with the config, and needs the right to get and create pods/exec.
func New(config *rest.Config, client kubernetes.Interface) (*Execs, error) {
	if config == nil || client == nil {
		return nil, errors.New("create the access to containers: the configuration or the client is missing")
	}
	return newExecs(&remote{config: config, client: client.CoreV1().RESTClient()}, ""), nil
}

func newExecs(by executor, root string) *Execs {
	return &Execs{executor: by, root: root, known: map[copyKey]version{}}
}

// noInput returns the stdin of scripts that read none.
func noInput() io.Reader { return strings.NewReader("") }

// state returns the path of the state directory.
func (e *Execs) state() string { return e.root + StateDirectory }

func (at Place) key() copyKey { return copyKey{at.Namespace, at.Pod, at.PodUID, at.Project} }

// id returns the ID as one word of a file that the scripts read.
func (at Place) id() string {
	if at.ID == "" {
		return "-"
	}
	return at.ID
}

func (at Place) String() string {
	return fmt.Sprintf("container %s of pod %s/%s", at.Container, at.Namespace, at.Pod)
}

// script runs a script and returns its output without the last line, which is the proof of its success. The script gets
// the proof as its last argument.
func (e *Execs) script(ctx context.Context, at Place, source string, stdin io.Reader, arguments ...string) (string, error) {
	proof := rand.Text()
	var stdout bytes.Buffer
	stderr := &tail{limit: maxStderr}
	exit, err := e.exec(ctx, at, append(bootstrapArgv(arguments...), proof), scriptInput(source, stdin), &stdout, stderr)
	if err != nil {
		return "", explain(ctx, at, err)
	}
	if exit != 0 {
		return "", failure(at, exit, stderr.String())
	}
	output, isWhole := strings.CutSuffix(stdout.String(), proof+"\n")
	if !isWhole {
		return "", fmt.Errorf("run a script in %s: %w before it had ended", at, ErrConnection)
	}
	return output, nil
}

// exec calls the executor. The streams are not used any more when it returns.
func (e *Execs) exec(ctx context.Context, at Place, argv []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	out, errs := &guard{writer: stdout}, &guard{writer: stderr}
	defer out.close()
	defer errs.close()
	in := &guard{reader: stdin}
	defer in.close()
	return e.executor.exec(ctx, at, argv, in, out, errs)
}

// bootstrap runs the script that comes first in stdin, up to a line with a dot. A script in the arguments would be in
// the URL of the request, which proxies limit to a few kilobytes. What is cut off does not run.
const bootstrap = `b_script=
while IFS= read -r b_line; do
[ "$b_line" != . ] || { eval "$b_script"; exit; }
b_script="$b_script$b_line
"
done
exit 92`

func bootstrapArgv(arguments ...string) []string {
	return append([]string{"sh", "-c", bootstrap, "sh"}, arguments...)
}

// scriptInput returns the stdin for bootstrap: a script without comments and indentation, and the script's own stdin.
func scriptInput(source string, stdin io.Reader) io.Reader {
	var short strings.Builder
	for line := range strings.Lines(source) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			short.WriteString(line + "\n")
		}
	}
	short.WriteString(".\n")
	return io.MultiReader(strings.NewReader(short.String()), stdin)
}

// guard passes reads and writes on until it is closed. The goroutines of a connection that was given up may still use
// it then.
type guard struct {
	mu       sync.Mutex
	isClosed bool
	reader   io.Reader
	writer   io.Writer
}

func (g *guard) Read(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed {
		return 0, io.ErrClosedPipe
	}
	return g.reader.Read(p)
}

func (g *guard) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isClosed {
		return 0, io.ErrClosedPipe
	}
	return g.writer.Write(p)
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isClosed = true
}

// maxStderr is how much of the errors of a script is kept, in bytes.
const maxStderr = 16 << 10

// tail keeps the end of what is written to it.
type tail struct {
	limit int
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.limit; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.kept) }
