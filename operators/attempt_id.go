package operators

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// AttemptID returns an identifier of an attempt: 16 hexadecimal digits. No two attempts for one object start at
// the same time.
func AttemptID(controller string, object types.NamespacedName, started time.Time) string {
	hash := fnv.New64a()
	for _, part := range []string{controller, object.Namespace, object.Name} {
		_, _ = hash.Write([]byte(part)) // A hash never fails.
		_, _ = hash.Write([]byte{0})
	}
	_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(started.UnixNano())))
	return hex.EncodeToString(hash.Sum(nil))
}
