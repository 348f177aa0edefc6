package election_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// commit is a write that the API server has committed.
type commit struct {
	revision uint64 // the revision that it left
	by       string // the process that sent it, by its User-Agent
	what     string
	isLease  bool
	holder   string // of the Lease: the identity of an epoch
}

// auditLog reads an audit log of the API server while it grows.
type auditLog struct {
	file    string
	offset  int64
	commits []commit
	// unknown is the number of writes of processes whose answer does not say whether they were committed.
	unknown int
}

// newAuditedCluster starts a cluster of its own, and returns the log of all requests to its API server.
func newAuditedCluster(t *testing.T) (*localcluster.Cluster, *auditLog) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "audit.log")
	cluster, err := localcluster.Start(t.Context(), localcluster.Options{
		APIOnly: true, AuditLog: file, AuditUsers: []string{"bellerophon:admin"}, AuditContent: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() }) // A test that needs the whole log has stopped it, with its error.
	return cluster, &auditLog{file: file}
}

// read reads the whole lines that are new.
func (l *auditLog) read() error {
	file, err := os.Open(l.file)
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.NewSectionReader(file, l.offset, 1<<62))
	if err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range bytes.Lines(content) {
		var event auditv1.Event
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("read the audit log: %w in %s", err, line)
		}
		if err := l.take(&event); err != nil {
			return fmt.Errorf("read the audit log: %w in %s", err, line)
		}
	}
	l.offset += int64(len(content))
	return nil
}

// take adds what an event of the log says.
func (l *auditLog) take(event *auditv1.Event) error {
	written := slices.Contains([]string{"create", "update", "patch", "delete"}, event.Verb)
	ended := event.Stage == auditv1.StageResponseComplete || event.Stage == auditv1.StagePanic
	of := event.ObjectRef
	if !written || !ended || of == nil || of.Resource != "configmaps" && of.Resource != "leases" {
		return nil
	}
	code := 0
	if event.ResponseStatus != nil {
		code = int(event.ResponseStatus.Code)
	}
	// 499 is the code of a request whose client is gone.
	if event.Stage == auditv1.StagePanic || code < http.StatusOK || code == 499 || code == http.StatusRequestTimeout || code >= http.StatusInternalServerError {
		l.unknown++
		return nil
	}
	if code >= http.StatusMultipleChoices {
		return nil // It was refused.
	}
	var left struct {
		Metadata metav1.ObjectMeta
		Spec     struct{ HolderIdentity string }
	}
	if event.ResponseObject == nil {
		return fmt.Errorf("there is no answer to %s %s %s", event.Verb, of.Resource, of.Name)
	}
	if err := json.Unmarshal(event.ResponseObject.Raw, &left); err != nil {
		return err
	}
	revision, err := revisionOf(left.Metadata.ResourceVersion)
	if err != nil {
		return err
	}
	l.commits = append(l.commits, commit{
		revision: revision, by: event.UserAgent, what: event.Verb + " " + of.Resource + " " + of.Name,
		isLease: of.Resource == "leases", holder: left.Spec.HolderIdentity,
	})
	return nil
}

// processOf returns the process of an epoch's identity.
func processOf(holder string) string {
	process, _, _ := strings.Cut(holder, "_")
	return process
}

// deposed returns the writes to ConfigMaps of processes that the Lease did not name at their revision, and the number
// of all writes of processes. A write before the first one of the successor counts too.
func deposed(commits []commit) (found []string, writes int) {
	holder, first := "", uint64(0)
	for _, each := range slices.SortedFunc(slices.Values(commits), func(a, b commit) int { return cmp.Compare(a.revision, b.revision) }) {
		switch {
		case each.isLease:
			if each.holder != holder {
				holder, first = each.holder, 0
			}
		case !strings.HasPrefix(each.by, "process-"): // The test has made the objects.
		case each.by == processOf(holder):
			writes++
			if first == 0 {
				first = each.revision
			}
		default:
			writes++
			violation := fmt.Sprintf("%s wrote revision %d (%s) while %q held the Lease", each.by, each.revision, each.what, holder)
			if first != 0 {
				violation += fmt.Sprintf(", whose first write was revision %d", first)
			}
			found = append(found, violation)
		}
	}
	return found, writes
}

// TestAWriteOfADeposedLeaderIsFoundInTheAuditLog seeds two such writes: one before the first write of the successor,
// and one after it whose content claims to be of the successor.
func TestAWriteOfADeposedLeaderIsFoundInTheAuditLog(t *testing.T) {
	cluster, log := newAuditedCluster(t)
	clientOf := func(process string) kubernetes.Interface {
		config := cluster.AdminConfig()
		config.UserAgent = process
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	one, two := clientOf("process-1"), clientOf("process-2")
	object, err := clientOf(rest.DefaultKubernetesUserAgent()).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "object"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(client kubernetes.Interface, claims string) {
		t.Helper()
		body := fmt.Appendf(nil, `{"metadata":{"annotations":{"by":%q}},"data":{"n":"%d"}}`, claims, time.Now().UnixNano())
		if object, err = client.CoreV1().ConfigMaps("default").Patch(t.Context(), "object", types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := one.CoordinationV1().Leases("default").Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("process-1_a")},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	write(one, "process-1")
	judged := func() (found []string, writes int) {
		t.Helper()
		if err := log.read(); err != nil {
			t.Fatal(err)
		}
		return deposed(log.commits)
	}
	if found, _ := judged(); len(found) > 0 {
		t.Errorf("without a seeded write, the log has %q", found)
	}
	lease.Spec.HolderIdentity = new("process-2_b")
	if _, err := two.CoordinationV1().Leases("default").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	write(one, "process-1")
	early := fmt.Sprintf(`process-1 wrote revision %s (patch configmaps object) while "process-2_b" held the Lease`, object.ResourceVersion)
	write(two, "process-2")
	first := object.ResourceVersion
	write(one, "process-2")
	over := fmt.Sprintf(`process-1 wrote revision %s (patch configmaps object) while "process-2_b" held the Lease, whose first write was revision %s`, object.ResourceVersion, first)
	if err := cluster.Stop(); err != nil { // The log is complete.
		t.Fatal(err)
	}
	found, writes := judged()
	if want := []string{early, over}; !slices.Equal(found, want) || writes != 4 || log.unknown != 0 {
		t.Errorf("of %d writes and %d unknown ones, these were found:\n%q\nwant\n%q", writes, log.unknown, found, want)
	}
}

func TestTheAuditLogIsReadWhileItGrows(t *testing.T) {
	line := func(verb, resource, stage string, code int, answer string) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","stage":%q,"verb":%q,"userAgent":"process-1","objectRef":{"resource":%q,"name":"one"},`+
			`"responseStatus":{"code":%d},"responseObject":%s}`, stage, verb, resource, code, answer)
	}
	const object = `{"metadata":{"resourceVersion":"7"}}`
	log := &auditLog{file: filepath.Join(t.TempDir(), "audit.log")}
	if err := log.read(); err == nil {
		t.Error("a log that does not exist was read")
	}
	half := line("patch", "configmaps", "ResponseComplete", 200, `{"metadata":{"resourceVersion":"8"}}`)
	content := strings.Join([]string{
		line("patch", "configmaps", "RequestReceived", 0, "null"),
		line("patch", "configmaps", "ResponseComplete", 200, object),
		line("get", "configmaps", "ResponseComplete", 200, object),
		line("create", "events", "ResponseComplete", 201, object),
		line("update", "leases", "ResponseComplete", 409, object),
		line("patch", "configmaps", "ResponseComplete", 504, object),
		line("patch", "configmaps", "ResponseComplete", 499, object),
		line("patch", "configmaps", "Panic", 200, object),
		half[:20],
	}, "\n")
	for _, each := range []struct {
		add       string
		revisions []uint64
	}{{content, []uint64{7}}, {half[20:], []uint64{7}}, {"\n", []uint64{7, 8}}} {
		file, err := os.OpenFile(log.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(each.add); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		if err := log.read(); err != nil {
			t.Fatal(err)
		}
		var revisions []uint64
		for _, found := range log.commits {
			revisions = append(revisions, found.revision)
		}
		if !slices.Equal(revisions, each.revisions) || log.unknown != 3 {
			t.Errorf("the log has the revisions %v and %d unknown writes, want %v and 3", revisions, log.unknown, each.revisions)
		}
	}
}
