#include "oracle/error_walk.h"
namespace sdm::oracle {
ErrorWalk::ErrorWalk(const StreamMap& m, const std::vector<ChunkForm>& f, const OracleOptions& o, int c)
    : map_(m), forms_(f), options_(o), columns_(c) {
  (void)map_;
  (void)forms_;
  (void)options_;
  (void)columns_;
}
void ErrorWalk::forward_chunk(int, const StreamState&) {}
void ErrorWalk::reverse_chunk(int, const StreamState&, StreamDots&) {}
void finish_dots(const StreamMap&, const std::vector<ChunkForm>&, StreamDots&) {}
std::vector<ChunkForm> make_chunk_forms(const StreamMap&) { return {}; }
}  // namespace sdm::oracle
